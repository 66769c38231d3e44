"""Explains what ``torch.compile`` did: every recompile, graph break and eager fallback, with its cause.

The names below are imported when they are first asked for: the pytest plugin, which every pytest run of
an environment loads, must cost nothing where it is not used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope._version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.errors import CompilescopeError, CompilescopeWarning
    from compilescope.observing import Scope, observe
    from compilescope.record import Recording
    from compilescope.storage import load, merge, save
    from compilescope.workloads.declare import Axis, Workload, workload
    from compilescope.workloads.model.model_workload import model_workload

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
    "model_workload",
    "observe",
    "save",
    "workload",
]

_HOMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Axis": "workloads.declare",
        "CompilescopeError": "errors",
        "CompilescopeWarning": "errors",
        "Recording": "record",
        "Scope": "observing",
        "Workload": "workloads.declare",
        "load": "storage",
        "merge": "storage",
        "model_workload": "workloads.model.model_workload",
        "observe": "observing",
        "save": "storage",
        "workload": "workloads.declare",
    }
)


def __getattr__(name: str) -> object:
    """Import ``name`` from the module that it is defined in."""
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    """Return the public names that are loaded; to whom completes them at a prompt, all of them.

    Tools such as freezegun ask every loaded module for the value of each name that it lists: that must import nothing.
    """
    return sorted(__all__ if hasattr(sys, "ps1") else globals().keys() & set(__all__))
