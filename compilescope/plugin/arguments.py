"""The keyword arguments of the marks: what each takes, and which limit of a budget it sets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.analysis.kinds import KINDS
from compilescope.gate.places import spelt_as_recorded
from compilescope.wording import guess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BROKEN: Final = "broken"
TARGETS: Final = "targets"


@dataclass(frozen=True, slots=True)
class Argument:
    """A keyword argument of a mark.

    Attributes:
        budget: the field of :class:`compilescope.gate.budget.Budget` that it sets.
        read: checks a value and returns what the budget takes; raises ValueError that says what the value must be.
        limits: False if it only allows or names something, and sets no limit.
    """

    budget: str
    read: Callable[[object], object]
    limits: bool = True


def number(value: object) -> int:
    """Read a count.

    Raises:
        ValueError: it is not a count.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        msg = "a whole number, 0 or more"
        raise ValueError(msg)
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        msg = "a number of seconds, 0 or more"
        raise ValueError(msg)
    return float(value)


def _flag(value: object) -> bool:
    if value is not True and value is not False:
        msg = "True or False"
        raise ValueError(msg)
    return value


def _names(value: object) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        msg = "a string or a list of strings"
        raise ValueError(msg)
    return tuple(names)


def _places(value: object) -> tuple[str, ...]:
    return spelt_as_recorded(_names(value), Path.cwd())


def _kinds(value: object) -> dict[str, int]:
    """Read how many recompiles each kind may cause; an unnamed kind may cause none."""
    limits = dict.fromkeys(KINDS, 0)
    if not isinstance(value, dict):
        msg = "a dict of kinds and numbers, such as {'module_type': 1}"
        raise ValueError(msg)  # noqa: TRY004 (the caller makes one sentence of it, whatever is wrong)
    for kind, limit in value.items():
        if kind not in limits:
            msg = f"of the kinds that `compilescope explain` lists, and {kind!r} is none.{guess(str(kind), KINDS)}"
            raise ValueError(msg)
        limits[kind] = number(limit)
    return limits


_ALLOWED: Final = {
    "allow_fallbacks": Argument("allow_fallbacks", _names, limits=False),
    "allow_uncompiled": Argument("allow_uncompiled", _names, limits=False),
    "allow_unknown": Argument("allow_unknown", _flag, limits=False),
}
_OWN: Final = {"own": Argument("own", _places, limits=False)}

ARGUMENTS: Final[Mapping[str, Mapping[str, Argument]]] = MappingProxyType(
    {
        "no_shape_recompile": _ALLOWED,
        "compile_budget": {
            "compiles": Argument("max_compiles", number),
            "recompiles": Argument("max_recompiles", number),
            "kinds": Argument("max_recompiles_by_kind", _kinds),
            "graph_breaks": Argument("max_graph_breaks", number),
            "own_graph_breaks": Argument("max_own_graph_breaks", number),
            **_OWN,
            "operators": Argument("min_operators", number),
            "guards": Argument("max_guards", number),
            "seconds": Argument("max_compile_seconds", _seconds),
            **_ALLOWED,
        },
        "max_graph_breaks": {**_OWN, **_ALLOWED},
    }
)
"""The keyword arguments of each mark; every mark also has ``targets`` and ``broken``."""
