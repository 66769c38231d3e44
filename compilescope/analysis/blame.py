"""Which axis a compilation is attributed to. Pure; imports no torch.

Which axis that is follows from the sweep, not from the guards:

- At the first point everything compiles for the first time; that is attributed to no axis.
- If no axis changed since the closest entry was compiled, no axis is to blame: it is the second
  layer of one forward, or some state changed. The same holds at a point that was visited before.
- If one axis changed, it is that one.
- Code that first runs at a later point is compared with the first point.
- If several changed, it is the one whose old and new value a cause names, and with it, if another
  cause names no axis, the one whose value is new; else the one whose value is new; else those that
  alone distinguish this point from one visited before; else all.

An attempt that hit the recompile limit or failed also needed a graph, so it counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from compilescope.record import Compilation, Failure, Scalar, Sweep

Point = dict[str, "Scalar"]
_Key = tuple[type, "Scalar"]
_NEEDED_A_GRAPH: Final = frozenset({"compiled", "limit", "failed"})
_ZERO_ONE: Final = "zero_one"
_INTEGER: Final = re.compile(r"-?\d+")


def key(value: Scalar) -> _Key:
    """Distinguish ``1``, ``1.0`` and ``True``, which are equal in Python."""
    return type(value), value


def moved(old: Mapping[str, Scalar], new: Mapping[str, Scalar]) -> tuple[str, ...]:
    """Return the axes whose values differ between two points of one sweep, in the sweep's order."""
    return tuple(axis for axis in new if axis not in old or key(old[axis]) != key(new[axis]))


def is_zero_or_one(value: Scalar) -> bool:
    """Return whether ``value`` is a size that Dynamo gives a graph of its own; a bool is not a size."""
    return isinstance(value, int) and not isinstance(value, bool) and value in {0, 1}


@dataclass(frozen=True, slots=True)
class Charge:
    """A compilation attributed to an axis at a value, with the kinds of its causes."""

    axis: str
    value: Scalar
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """A frame that needed a graph after the first point.

    Attributes:
        point: where.
        old: the point of the closest entry; the first point for code that runs for the first time;
            None if no entry could be examined.
        before: the points visited earlier, in order.
        causes: root failures of the closest entry.
    """

    point: Point
    old: Point | None
    before: tuple[Point, ...]
    causes: tuple[Failure, ...]

    @property
    def revisited(self) -> bool:
        """Whether the sweep visited this same point before."""
        return any(not moved(earlier, self.point) for earlier in self.before)


def events(sweep: Sweep, compilations: Sequence[Compilation]) -> list[Event]:
    """Return the frames that needed a graph after the baseline.

    Args:
        sweep: the points that were visited, in order.
        compilations: only those of this sweep, in order.
    """
    visits = [point.values for point in sweep.points]
    ok = [place for place, point in enumerate(sweep.points) if point.status == "ok"]
    # A first point that raised may not have compiled everything: the first that ran is the baseline.
    base = ok[0] if ok else 0
    points = {compilation.id: compilation.point for compilation in compilations}
    found: list[Event] = []
    place = 0
    for compilation in compilations:
        point, recompile = compilation.point, compilation.recompile
        wanted = compilation.outcome in _NEEDED_A_GRAPH or (compilation.outcome == "skipped" and recompile is not None)
        if point is None or not wanted:
            continue
        place = _place(point, visits, place)
        if recompile is None and place <= base:
            continue
        found.append(
            Event(
                point=point,
                old=visits[0] if recompile is None else points.get(recompile.closest or ""),
                before=tuple(visits[:place]),
                causes=recompile.causes if recompile is not None else (),
            )
        )
    return found


def _place(point: Point, visits: Sequence[Point], start: int) -> int:
    """Return which visit a compilation belongs to; past the end for a point that Ctrl-C interrupted."""
    return next((place for place in range(start, len(visits)) if not moved(visits[place], point)), len(visits))


def charges_of(event: Event) -> list[Charge]:
    """Return the axes and values that the event is attributed to; none if no axis caused it."""
    if event.revisited:
        return []
    return [
        Charge(axis, value, kinds)
        for axis, kinds in _blamed(event).items()
        for value in _blamed_values(axis, event, kinds)
    ]


def _blamed(event: Event) -> dict[str, tuple[str, ...]]:
    """Return the axes to blame, each with the kinds of the causes that point to it."""
    if event.old is None:
        # The closest entry is unknown: any axis that ever had another value may be to blame.
        changed = tuple(axis for axis in event.point if any(axis in moved(p, event.point) for p in event.before))
    else:
        changed = moved(event.old, event.point)
    if len(changed) > 1:
        if named := _named_by_causes(changed, event):
            return named
        changed = _of_new_value(changed, event) or _alone_apart(changed, event) or changed
    return dict.fromkeys(changed, _kinds(event.causes))


def _kinds(causes: Iterable[Failure]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cause.kind for cause in causes if cause.kind is not None))


def _named_by_causes(changed: Sequence[str], event: Event) -> dict[str, tuple[str, ...]]:
    """Return the axes whose old and new values are the expected and actual values of a cause.

    A cause that names no axis (tokens are height times width) is attributed to the other axes with a new value.
    """
    naming = {axis: [cause for cause in event.causes if _names(cause, axis, event)] for axis in changed}
    named = {axis: _kinds(causes) for axis, causes in naming.items() if causes}
    nameless = [cause for cause in event.causes if not any(cause in causes for causes in naming.values())]
    if named and nameless:
        others = [axis for axis in changed if axis not in named]
        named |= dict.fromkeys(_of_new_value(others, event), _kinds(nameless))
    return named


def _names(cause: Failure, axis: str, event: Event) -> bool:
    if event.old is None or cause.actual != str(event.point[axis]):
        return False
    # "expected >= 2" names no value; if the cause names an old value, it must be this axis' own.
    return cause.expected == str(event.old[axis]) or _INTEGER.fullmatch(cause.expected) is None


def _of_new_value(changed: Sequence[str], event: Event) -> tuple[str, ...]:
    return tuple(
        axis
        for axis in changed
        if all(key(earlier[axis]) != key(event.point[axis]) for earlier in event.before if axis in earlier)
    )


def _alone_apart(changed: Sequence[str], event: Event) -> tuple[str, ...]:
    """Return the axes that alone distinguish the point from one that was visited."""
    apart = {axes[0] for axes in (moved(earlier, event.point) for earlier in event.before) if len(axes) == 1}
    return tuple(axis for axis in changed if axis in apart)


def _blamed_values(axis: str, event: Event, kinds: Sequence[str]) -> tuple[Scalar, ...]:
    """Return the values that the compilation is attributed to: the new one, unless the old one was 0 or 1.

    A sweep that starts at 0 compiles for the second value because the first was special. From 0 to 1,
    both are special.
    """
    new = event.point[axis]
    if event.old is None or tuple(kinds) != (_ZERO_ONE,) or axis not in event.old:
        return (new,)
    return tuple(value for value in (event.old[axis], new) if is_zero_or_one(value)) or (new,)
