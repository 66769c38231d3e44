"""What a sweep says of each axis: free, free except at 0 or 1, or where it compiles and why. Pure; imports no torch.

With automatic dynamic shapes the first change of a size costs one compilation and the later ones
none: that is "compiles at 1 of 3 values", not free.

An axis is called free only where that was seen: it ran with two values or more, something was
compiled, and no code object had given up compiling before. Otherwise the summary leaves it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from compilescope.analysis.blame import charges_of, events, is_zero_or_one, key, moved
from compilescope.record import AxisSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from compilescope.analysis.blame import Charge, Point
    from compilescope.record import Compilation, Recording, Scalar, Sweep

_GIVES_UP: Final = frozenset({"recompile_limit", "user_exception"})


def with_axes(recording: Recording) -> Recording:
    """Return ``recording`` with ``Recompile.axes`` and the missing summaries of its sweeps filled in.

    Where two sweeps have the same axes, the earlier one's compilations cannot be told from the later
    one's here: give such sweeps their summary by :func:`summarise` as each of them ends.
    """
    points = {one.id: one.point for one in recording.compilations}
    compilations = tuple(_with_moved(one, points) for one in recording.compilations)
    sweeps = tuple(
        sweep if sweep.summary is not None else msgspec.structs.replace(sweep, summary=summarise(sweep, compilations))
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
        compilations: in order; those outside this sweep's axes are left out.
    """
    ours = _of_sweep(sweep, compilations)
    if not any(one.outcome == "compiled" for one in ours):
        return {}
    charges = [charge for one in events(sweep, ours) for charge in charges_of(one)]
    gave_up = _gave_up(ours)
    summary: dict[str, AxisSummary] = {}
    for axis, values in sweep.axes.items():
        laid = [charge for charge in charges if charge.axis == axis]
        seen = {key(point.values[axis]) for point in sweep.points if point.status == "ok"}
        seen |= {key(charge.value) for charge in laid}
        if laid or (len(seen) > 1 and not gave_up):
            summary[axis] = _axis_summary(values, laid)
    return summary


def _gave_up(compilations: Sequence[Compilation]) -> bool:
    """Return whether some code ceased to compile: it runs eagerly whatever the axes do, and its silence proves nothing.

    Code that met the recompile limit, that had a graph and was skipped later, or whose tracing a user
    exception ended: Dynamo skips such code for good. Code that was skipped from the start is no part
    of what compiles.
    """
    compiled: set[str] = set()
    given_up: set[str] = set()
    for one in compilations:
        kind = one.error.kind if one.error is not None else None
        if one.outcome == "compiled":
            compiled.add(one.code)
            given_up.discard(one.code)
        elif one.outcome == "limit" or kind in _GIVES_UP or (one.outcome == "skipped" and one.code in compiled):
            given_up.add(one.code)
    return bool(given_up)


def _axis_summary(values: Sequence[Scalar], laid: Sequence[Charge]) -> AxisSummary:
    at = {key(charge.value) for charge in laid}
    distinct = {key(value): value for value in values}
    compiles_at = tuple(value for one, value in distinct.items() if one in at)
    special = bool(compiles_at) and all(is_zero_or_one(value) for value in compiles_at)
    rest = len(distinct) - len(compiles_at)
    return AxisSummary(
        free=not compiles_at,
        compiles_at=compiles_at,
        because=tuple(dict.fromkeys(kind for charge in laid for kind in charge.kinds)),
        # With fewer than two other values nothing was seen to be free.
        free_except=compiles_at if special and rest > 1 else (),
    )
