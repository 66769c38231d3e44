"""Which axis of a sweep made it compile, and which axes are free. Pure; imports no torch.

A compilation is *laid to* an axis. Which axis that is follows from the sweep, not from the guards:

- At the first point everything compiles for the first time; that is laid to no axis.
- Where no axis moved since the closest entry was compiled, none is to blame: the second layer of
  one forward, or a state that changed. The same holds at a point that was visited before.
- Where one axis moved, it is that one.
- Where several moved, it is the one whose old and new value the cause names; else the one whose
  value is new; else those that alone separate this point from one visited before; else all.

An attempt that met the recompile limit or failed needed a graph as much as one that got it, so it
counts. With automatic dynamic shapes the first change of a size costs one compilation and the later
ones none: that is "compiles at 1 of 3 values", not free.

An axis is called free only where that was seen: it ran with two values or more, something was
compiled, and no code object had given up compiling before. Otherwise the summary leaves it out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from compilescope.record import AxisSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from compilescope.record import Compilation, Failure, Recompile, Recording, Scalar, Sweep

Point = dict[str, "Scalar"]
_Key = tuple[type, "Scalar"]

_NEEDED_A_GRAPH: Final = frozenset({"compiled", "limit", "failed", "skipped"})
_GAVE_UP: Final = frozenset({"limit", "skipped"})
_ZERO_ONE: Final = "zero_one"
_INTEGER: Final = re.compile(r"-?\d+")


def _key(value: Scalar) -> _Key:
    """Tell ``1``, ``1.0`` and ``True`` apart, which Python holds equal."""
    return type(value), value


def moved(old: Mapping[str, Scalar], new: Mapping[str, Scalar]) -> tuple[str, ...]:
    """Return the axes whose values differ between two points of one sweep, in the sweep's order."""
    return tuple(axis for axis in new if axis not in old or _key(old[axis]) != _key(new[axis]))


def with_axes(recording: Recording) -> Recording:
    """Return ``recording`` with ``Recompile.axes`` and the missing summaries of its sweeps filled in.

    Where two sweeps have the same axes, the earlier one's compilations cannot be told from the later
    one's here: give such sweeps their summary by :func:`summarise` as each of them ends.
    """
    points = {one.id: one.point for one in recording.compilations}
    compilations = tuple(_with_moved(one, points) for one in recording.compilations)
    sweeps = tuple(
        sweep
        if sweep.summary is not None
        else msgspec.structs.replace(sweep, summary=summarise(sweep, _of_sweep(sweep, compilations)))
        for sweep in recording.sweeps
    )
    return msgspec.structs.replace(recording, compilations=compilations, sweeps=sweeps)


def _with_moved(compilation: Compilation, points: Mapping[str, Point | None]) -> Compilation:
    recompile = compilation.recompile
    if recompile is None or compilation.point is None or recompile.closest is None:
        return compilation
    old = points.get(recompile.closest)
    if old is None:
        return compilation
    changed = msgspec.structs.replace(recompile, axes=moved(old, compilation.point))
    return msgspec.structs.replace(compilation, recompile=changed)


def _of_sweep(sweep: Sweep, compilations: Iterable[Compilation]) -> list[Compilation]:
    return [one for one in compilations if one.point is not None and one.point.keys() == sweep.axes.keys()]


def summarise(sweep: Sweep, compilations: Sequence[Compilation]) -> dict[str, AxisSummary]:
    """Return what can be said of each axis; an axis of which nothing can be said is left out.

    Args:
        sweep: the points that were visited, in order.
        compilations: those of this sweep alone, in order.
    """
    ours = _of_sweep(sweep, compilations)
    if not any(one.outcome == "compiled" for one in ours):
        return {}
    charges = [charge for one in _events(sweep, ours) for charge in _charges(one)]
    # Code that gave up compiling runs eagerly whatever the axes do: silence after that proves nothing.
    gave_up = any(one.outcome in _GAVE_UP or _met_limit(one) for one in ours)
    summary: dict[str, AxisSummary] = {}
    for axis, values in sweep.axes.items():
        laid = [charge for charge in charges if charge.axis == axis]
        seen = {_key(point.values[axis]) for point in sweep.points if point.status == "ok"}
        seen |= {_key(charge.value) for charge in laid}
        if laid or (len(seen) > 1 and not gave_up):
            summary[axis] = _axis_summary(values, laid)
    return summary


def _met_limit(compilation: Compilation) -> bool:
    return compilation.error is not None and compilation.error.kind == "recompile_limit"


def _axis_summary(values: Sequence[Scalar], laid: Sequence[_Charge]) -> AxisSummary:
    at = {_key(charge.value) for charge in laid}
    distinct = {_key(value): value for value in values}
    compiles_at = tuple(value for key, value in distinct.items() if key in at)
    special = bool(compiles_at) and all(_is_zero_or_one(value) for value in compiles_at)
    rest = len(distinct) - len(compiles_at)
    return AxisSummary(
        free=not compiles_at,
        compiles_at=compiles_at,
        because=tuple(dict.fromkeys(kind for charge in laid for kind in charge.kinds)),
        # With fewer than two other values nothing was seen to be free.
        free_except=compiles_at if special and rest > 1 else (),
    )


def _is_zero_or_one(value: Scalar) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in {0, 1}


@dataclass(frozen=True, slots=True)
class _Charge:
    """A compilation laid to an axis at a value, with the kinds of its causes."""

    axis: str
    value: Scalar
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Event:
    """A frame that needed a graph after the first point.

    Attributes:
        point: where.
        old: the point of the closest entry; None where the code had none.
        before: the points visited earlier, each once, in order.
        causes: root failures of the closest entry.
    """

    point: Point
    old: Point | None
    before: tuple[Point, ...]
    causes: tuple[Failure, ...]

    @property
    def revisited(self) -> bool:
        return any(not moved(earlier, self.point) for earlier in self.before)


def _events(sweep: Sweep, compilations: Sequence[Compilation]) -> list[_Event]:
    visits = [point.values for point in sweep.points]
    ok = [place for place, point in enumerate(sweep.points) if point.status == "ok"]
    # A first point that raised had no chance to compile everything: the first that ran is the base line.
    base = ok[0] if ok else 0
    points = {one.id: one.point for one in compilations}
    found: list[_Event] = []
    place = 0
    for one in compilations:
        if one.point is None or one.outcome not in _NEEDED_A_GRAPH:
            continue
        place = _place(one.point, visits, place)
        if one.recompile is None and place <= base:
            continue
        found.append(
            _Event(
                point=one.point,
                old=_old_point(one.recompile, points),
                before=tuple(visits[:place]),
                causes=one.recompile.causes if one.recompile is not None else (),
            )
        )
    return found


def _place(point: Point, visits: Sequence[Point], start: int) -> int:
    """Return which visit a compilation belongs to; past the end for a point that Ctrl-C cut short."""
    return next((place for place in range(start, len(visits)) if not moved(visits[place], point)), len(visits))


def _old_point(recompile: Recompile | None, points: Mapping[str, Point | None]) -> Point | None:
    return None if recompile is None or recompile.closest is None else points.get(recompile.closest)


def _charges(event: _Event) -> list[_Charge]:
    if event.revisited:
        return []
    kinds = tuple(dict.fromkeys(cause.kind for cause in event.causes if cause.kind is not None))
    return [_Charge(axis, _blamed_value(axis, event, kinds), kinds) for axis in _blamed(event)]


def _blamed(event: _Event) -> tuple[str, ...]:
    if event.old is None:
        # New code was reached, or no entry could be examined: any axis may have moved since the start.
        changed = tuple(axis for axis in event.point if any(axis in moved(p, event.point) for p in event.before))
    else:
        changed = moved(event.old, event.point)
    if len(changed) < 2:  # noqa: PLR2004 (none or one leaves no choice)
        return changed
    return _named_by_causes(changed, event) or _of_new_value(changed, event) or _alone_apart(changed, event) or changed


def _named_by_causes(changed: Sequence[str], event: _Event) -> tuple[str, ...]:
    """Return the axes whose old and new values are the expected and actual values of a cause."""
    if event.old is None:
        return ()
    old = event.old
    return tuple(
        axis
        for axis in changed
        if any(
            cause.actual == str(event.point[axis])
            and (cause.expected == str(old[axis]) or _INTEGER.fullmatch(cause.expected) is None)
            for cause in event.causes
        )
    )


def _of_new_value(changed: Sequence[str], event: _Event) -> tuple[str, ...]:
    return tuple(
        axis
        for axis in changed
        if all(_key(earlier[axis]) != _key(event.point[axis]) for earlier in event.before if axis in earlier)
    )


def _alone_apart(changed: Sequence[str], event: _Event) -> tuple[str, ...]:
    """Return the axes that alone separate the point from one that was visited."""
    apart = {axes[0] for axes in (moved(earlier, event.point) for earlier in event.before) if len(axes) == 1}
    return tuple(axis for axis in changed if axis in apart)


def _blamed_value(axis: str, event: _Event, kinds: Sequence[str]) -> Scalar:
    """Return the value that the compilation is laid to: the new one, unless the old one was 0 or 1.

    A sweep that starts at 0 compiles for the second value because the first was special.
    """
    new = event.point[axis]
    if event.old is None or tuple(kinds) != (_ZERO_ONE,) or axis not in event.old:
        return new
    old = event.old[axis]
    return old if _is_zero_or_one(old) and not _is_zero_or_one(new) else new
