"""Explains what ``torch.compile`` did: every recompile, graph break and eager fallback, with its cause."""

from compilescope._version import __version__
from compilescope.errors import CompilescopeError, CompilescopeWarning
from compilescope.observing import Scope, observe
from compilescope.record import Recording
from compilescope.storage import load, merge, save
from compilescope.workload.declare import Axis, Workload, workload

__all__ = [
    "Axis",
    "CompilescopeError",
    "CompilescopeWarning",
    "Recording",
    "Scope",
    "Workload",
    "__version__",
    "load",
    "merge",
    "observe",
    "save",
    "workload",
]
