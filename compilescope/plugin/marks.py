"""What a test claims by a mark. Pure: :mod:`compilescope.testing` takes the same arguments without pytest."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from compilescope.errors import UsageError
from compilescope.plugin.arguments import ARGUMENTS, BROKEN, TARGETS, number
from compilescope.wording import guess, listing

if TYPE_CHECKING:
    from collections.abc import Mapping

_SORTS = "a target is a function, a class, an instance or a pattern over names"


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of one mark, or of one call of a helper.

    Attributes:
        mark: its name.
        targets: what it is about, as the user gave them.
        limits: fields of :class:`compilescope.gate.budget.Budget`.
        broken: why it is known not to hold today, or None.
        written: its arguments except ``broken``, as the user wrote them.
    """

    mark: str
    targets: tuple[object, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    broken: str | None = None
    written: str = ""

    def __str__(self) -> str:
        """Return its name in a sentence."""
        return f"{self.mark}({self.written})"


def read_mark(mark: str, args: tuple[object, ...], kwargs: Mapping[str, object], *, own: tuple[str, ...] = ()) -> Claim:
    """Return the claim of a mark with these arguments.

    Args:
        mark: its name.
        args: its positional arguments.
        kwargs: its keyword arguments.
        own: folders of the project's own code, for a limit that needs them if the mark names none.

    Raises:
        UsageError: an argument is unknown, missing or of the wrong type; the text is one sentence.
    """
    written = [*map(_name, args), *(f"{name}={_name(value)}" for name, value in kwargs.items() if name != BROKEN)]
    limits = _limits(mark, kwargs)
    if mark == "max_graph_breaks":
        own_alone = "max_own_graph_breaks" if "own" in kwargs else "max_graph_breaks"
        limits[own_alone], args = _only_number(mark, args), ()
    targets = _targets(mark, args, kwargs)
    if mark == "no_shape_recompile":
        if not targets:
            msg = f"no_shape_recompile needs a target, as in no_shape_recompile('Block.forward'): {_SORTS}."
            raise UsageError(msg)
        limits["no_shape_recompile"] = True
    if mark == "compile_budget":
        _check_budget(kwargs, limits, own)
    return Claim(mark, targets, MappingProxyType(limits), _broken(mark, kwargs), ", ".join(written))


def _limits(mark: str, kwargs: Mapping[str, object]) -> dict[str, object]:
    known = ARGUMENTS[mark]
    limits: dict[str, object] = {}
    for name, value in kwargs.items():
        if name in (BROKEN, TARGETS):
            continue
        if name not in known:
            names = (TARGETS, *known, BROKEN)
            msg = f"{mark} has no argument {name!r}.{guess(name, names) or f' It has {listing(names)}.'}"
            raise UsageError(msg)
        try:
            limits[known[name].budget] = known[name].read(value)
        except ValueError as error:
            msg = f"{mark}({name}={value!r}): {name} must be {error}"
            raise UsageError(msg if msg.endswith("?") else f"{msg}.") from None
    return limits


def _only_number(mark: str, args: tuple[object, ...]) -> int:
    try:
        (only,) = args
        return number(only)
    except ValueError:
        msg = f"{mark} takes one argument, a whole number of 0 or more; targets go into targets=."
        raise UsageError(msg) from None


def _targets(mark: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[object, ...]:
    named = kwargs.get(TARGETS, ())
    targets = (*args, *(named if isinstance(named, list | tuple) else (named,)))
    for target in targets:
        if isinstance(target, str) and not target.strip():
            msg = f"{mark} has an empty target, which would match nothing."
            raise UsageError(msg)
        if target is None or isinstance(target, bool | int | float | list | tuple | dict | set):
            msg = f"{mark} cannot take {target!r} as a target: {_SORTS}."
            raise UsageError(msg)
    return targets


def _check_budget(kwargs: Mapping[str, object], limits: dict[str, object], own: tuple[str, ...]) -> None:
    limiting = [name for name, argument in ARGUMENTS["compile_budget"].items() if argument.limits]
    if not any(name in kwargs for name in limiting):
        msg = f"compile_budget limits nothing: give {listing(limiting, last='or')}."
        raise UsageError(msg)
    if "own_graph_breaks" in kwargs and "own" not in kwargs:
        if not own:
            msg = "compile_budget(own_graph_breaks=...) needs own=[...], the folders that hold the project's code."
            raise UsageError(msg)
        limits["own"] = own


def _broken(mark: str, kwargs: Mapping[str, object]) -> str | None:
    reason = kwargs.get(BROKEN)
    if reason is None or (isinstance(reason, str) and reason.strip()):
        return reason
    msg = f"{mark}(broken={reason!r}): broken must be the reason why it does not hold today, in words."
    raise UsageError(msg)


def _name(value: object) -> str:
    """Return an argument as it was written, as far as its value shows: an instance appears as its class."""
    if isinstance(value, list):
        return f"[{', '.join(map(_name, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_name, value))}{',' if len(value) == 1 else ''})"
    if value is None or isinstance(value, str | bool | int | float | dict):
        return repr(value)
    named = getattr(value, "__qualname__", None)
    if isinstance(named, str):
        # Inside a function, its local names need no prefix.
        return named.rpartition("<locals>.")[2]
    return f"{type(value).__name__}(...)"
