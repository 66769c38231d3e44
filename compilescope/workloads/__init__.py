"""What is run: declaring, loading and sweeping workloads."""
