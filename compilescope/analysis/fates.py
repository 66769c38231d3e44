"""What happened at each value of an axis: which raised, which ran eagerly, which have a graph. Pure; imports no torch.

A value counts as raised, or as run eagerly, only if every point with that value did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.analysis.blame import key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from compilescope.record import AxisSummary, Recording, Scalar, Sweep, SweepPoint

_ENOUGH: Final = 3
"""How many values with their own graphs are no coincidence: automatic dynamic shapes make the second graph general."""


@dataclass(frozen=True, slots=True)
class Fates:
    """The values of one axis, each in one list.

    Attributes:
        raised: values at which the workload raised, by the name of the exception.
        eager: values at which a compiled callable ran eagerly, by the kind of fallback.
        ran: the other values that ran.
        unseen: values at which no point was run.
    """

    raised: Mapping[str, tuple[Scalar, ...]]
    eager: Mapping[str, tuple[Scalar, ...]]
    ran: tuple[Scalar, ...]
    unseen: tuple[Scalar, ...]


def fates_of(recording: Recording, sweep: Sweep, axis: str) -> Fates:
    """Return what happened at each value of an axis in a sweep of ``recording``."""
    raised: dict[str, tuple[Scalar, ...]] = {}
    eager: dict[str, tuple[Scalar, ...]] = {}
    ran: list[Scalar] = []
    unseen: list[Scalar] = []
    # An eager call at every value is not caused by this axis.
    kinds = {key(value): _eager_kind(recording, sweep, axis, value) for value in distinct(sweep.axes[axis])}
    by_axis = not all(kinds.values())
    for value in distinct(sweep.axes[axis]):
        points = _points_at(sweep, axis, value)
        kind = kinds[key(value)] if by_axis else None
        if points and all(point.status == "error" for point in points):
            names = " and ".join(dict.fromkeys(_exception(point) for point in points))
            raised[names] = (*raised.get(names, ()), value)
        elif kind is not None:
            eager[kind] = (*eager.get(kind, ()), value)
        else:
            (ran if points else unseen).append(value)
    return Fates(raised, eager, tuple(ran), tuple(unseen))


def has_graph_for_each(
    recording: Recording, sweep: Sweep, axis: str, summary: AxisSummary, ran: Sequence[Scalar]
) -> bool:
    """Whether each of the values that ran has a graph of its own.

    The first value has the graph of the first point, and each other one needed a compilation. If a graph may still be
    general, two values are too few to decide.
    """
    compiled = [c for c in recording.compiled if c.point is not None and c.point.keys() == sweep.axes.keys()]
    with_graph = {key(c.point[axis]) for c in compiled if c.point is not None}
    first = next((key(point.values.get(axis)) for point in sweep.points if point.status == "ok"), None)
    needed = with_graph & {first, *map(key, summary.compiles_at)}
    if not all(key(value) in needed for value in ran):
        return False
    may_be_general = any(c.dynamic is not False for c in compiled) and any(_is_number(value) for value in ran)
    return len(ran) >= (_ENOUGH if may_be_general else 2)


def distinct(values: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """Return each value once; ``1`` and ``True`` are different values."""
    return tuple({key(value): value for value in values}.values())


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _points_at(sweep: Sweep, axis: str, value: Scalar) -> list[SweepPoint]:
    return [point for point in sweep.points if key(point.values.get(axis)) == key(value)]


def _exception(point: SweepPoint) -> str:
    return (point.error or "an exception").partition(":")[0]


def _eager_kind(recording: Recording, sweep: Sweep, axis: str, value: Scalar) -> str | None:
    """Return why a callable ran eagerly at every completed point with ``value``; None if it did not."""
    if sum(other.axes.keys() == sweep.axes.keys() for other in recording.sweeps) > 1:
        return None  # which sweep the points belong to is unknown
    wanted = [point.values for point in _points_at(sweep, axis, value) if point.status == "ok"]
    for kind, points in _eager_points(recording):
        if wanted and all(any(_same(point, where) for where in points) for point in wanted):
            return kind
    return None


def _eager_points(recording: Recording) -> Iterator[tuple[str, list[dict[str, Scalar]]]]:
    for fallback in recording.fallbacks:
        points = list(fallback.points or ())
        if fallback.kind == "recompile_limit":
            # If calls were not counted, the refused attempt itself is still known.
            refused = (c for c in recording.compilations if c.outcome == "limit" and c.code == fallback.code)
            points += [c.point for c in refused if c.point is not None]
        yield fallback.kind, points


def _same(point: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> bool:
    return point.keys() == other.keys() and all(key(point[axis]) == key(other[axis]) for axis in point)
