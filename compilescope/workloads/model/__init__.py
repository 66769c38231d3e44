"""A plain model as a workload: its inputs from one line each, what of it is compiled, values for its axes."""
