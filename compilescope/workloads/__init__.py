"""Workloads: declaring, loading and sweeping them."""
