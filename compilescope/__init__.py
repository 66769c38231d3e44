"""Explains what ``torch.compile`` did: every recompile, graph break and eager fallback, with its cause."""

from compilescope._version import __version__

__all__ = ["__version__"]
