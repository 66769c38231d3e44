"""What a sweep says about each axis: free, free except at 0 or 1, or where it compiles and why. Pure; imports no torch.

With automatic dynamic shapes, the first change of a size costs one compilation and later changes
cost none: that is "compiles at 1 of 3 values", not free.

An axis is called free only if that was seen: it ran with at least two values, something was
compiled, and Dynamo had not stopped compiling any code object. Otherwise the summary leaves it out.
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

    If two sweeps have the same axes, the compilations of one cannot be distinguished from those of the
    other here: call :func:`summarise` for each such sweep when it ends.
    """
    points = {compilation.id: compilation.point for compilation in recording.compilations}
    compilations = tuple(_with_moved(compilation, points) for compilation in recording.compilations)
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
    return [c for c in compilations if c.point is not None and c.point.keys() == sweep.axes.keys()]


def summarise(sweep: Sweep, compilations: Sequence[Compilation]) -> dict[str, AxisSummary]:
    """Return what is known about each axis; an axis about which nothing is known is left out.

    Args:
        sweep: the points that were visited, in order.
        compilations: in order; those outside this sweep's axes are left out.
    """
    ours = _of_sweep(sweep, compilations)
    if not any(compilation.outcome == "compiled" for compilation in ours):
        return {}
    charges = [charge for event in events(sweep, ours) for charge in charges_of(event)]
    gave_up = _gave_up(ours)
    summary: dict[str, AxisSummary] = {}
    for axis, values in sweep.axes.items():
        charged = [charge for charge in charges if charge.axis == axis]
        seen = {key(point.values[axis]) for point in sweep.points if point.status == "ok"}
        seen |= {key(charge.value) for charge in charged}
        if charged or (len(seen) > 1 and not gave_up):
            summary[axis] = _axis_summary(values, charged)
    return summary


def _gave_up(compilations: Sequence[Compilation]) -> bool:
    """Return whether Dynamo stopped compiling some code: it runs eagerly whatever the axes do, which proves nothing.

    Such code hit the recompile limit, had a graph and was skipped later, or raised a user exception while
    it was traced: Dynamo skips it permanently. Code that was skipped from the start does not count.
    """
    compiled: set[str] = set()
    given_up: set[str] = set()
    for compilation in compilations:
        code, outcome = compilation.code, compilation.outcome
        kind = compilation.error.kind if compilation.error is not None else None
        if outcome == "compiled":
            compiled.add(code)
            given_up.discard(code)
        elif outcome == "limit" or kind in _GIVES_UP or (outcome == "skipped" and code in compiled):
            given_up.add(code)
    return bool(given_up)


def _axis_summary(values: Sequence[Scalar], charged: Sequence[Charge]) -> AxisSummary:
    at = {key(charge.value) for charge in charged}
    distinct = {key(value): value for value in values}
    compiles_at = tuple(value for identity, value in distinct.items() if identity in at)
    special = bool(compiles_at) and all(is_zero_or_one(value) for value in compiles_at)
    rest = len(distinct) - len(compiles_at)
    return AxisSummary(
        free=not compiles_at,
        compiles_at=compiles_at,
        because=tuple(dict.fromkeys(kind for charge in charged for kind in charge.kinds)),
        # With fewer than two other values, no value was seen to be free.
        free_except=compiles_at if special and rest > 1 else (),
    )
