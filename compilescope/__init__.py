"""Explains what ``torch.compile`` did: every recompile, graph break and eager fallback, with its cause."""

from compilescope._version import __version__
from compilescope.errors import CompilescopeError, CompilescopeWarning
from compilescope.observing import Scope, observe
from compilescope.record import Recording
from compilescope.storage import load, merge, save

__all__ = [
    "CompilescopeError",
    "CompilescopeWarning",
    "Recording",
    "Scope",
    "__version__",
    "load",
    "merge",
    "observe",
    "save",
]
