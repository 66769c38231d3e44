"""Benchmarks of the fused ops; run as ``python -m benchmarks.fused_ops.run``."""
