"""A plain model as a workload: one line per input, what to compile, values for its axes."""
