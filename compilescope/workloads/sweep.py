"""Runs a workload over its points, stamping what each of them compiles. Does not import torch itself."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from compilescope.record import Sweep, SweepPoint
from compilescope.workloads.faults import one_line, user_traceback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from compilescope.record import Parity, Recording, Scalar
    from compilescope.workloads.declare import Axis
    from compilescope.workloads.points import Order, Point


class Scope(Protocol):
    """What a sweep needs from an observation in progress; :class:`compilescope.observing.Scope` has it."""

    @property
    def recording(self) -> Recording:
        """The recording so far."""

    def at(self, values: dict[str, Scalar]) -> AbstractContextManager[None]:
        """Stamp the compilations made inside with the point."""

    def aside(self) -> AbstractContextManager[None]:
        """Keep the calls made inside out of the count of eager calls."""

    def add_sweep(self, sweep: Sweep) -> None:
        """Add a finished or interrupted sweep to the recording."""

    def reset(self) -> None:
        """Empty the caches of torch.compile."""


class Comparison(Protocol):
    """Runs a call and measures its difference from the same call in eager mode."""

    def run(self, call: Callable[[], object]) -> Callable[[], Parity | None]:
        """Make the compiled call; return what makes the eager one and compares."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a sweep.

    Attributes:
        workload: its name.
        axes: with the values for this sweep.
        order: of the points.
        warnings: doubts to keep with the result.
    """

    workload: str
    axes: tuple[Axis, ...]
    order: Order
    warnings: tuple[str, ...] = ()

    def points(self) -> list[Point]:
        """Return the points in the order of their visit."""
        return self.order.points(self.axes)


@dataclass(frozen=True, slots=True)
class Walk:
    """A sweep that ran.

    Attributes:
        sweep: its points.
        traceback: of the first that failed, for people.
        interrupted_by: what ended it before its last point, or None.
    """

    sweep: Sweep
    traceback: str | None = None
    interrupted_by: KeyboardInterrupt | None = None

    @property
    def all_failed(self) -> bool:
        """Whether there were points and none of them ran."""
        return bool(self.sweep.points) and all(point.status == "error" for point in self.sweep.points)


def walk(
    plan: Plan,
    call: Callable[..., object],
    scope: Scope,
    *,
    comparison: Comparison | None = None,
    track: Callable[[Sequence[Point]], Iterator[Point]] = iter,
) -> Walk:
    """Call ``call`` at every point of ``plan``, starting from empty caches.

    A point that raises is recorded and the sweep continues. Ctrl-C or SIGTERM ends it; the points so far are kept, and
    the sweep is marked incomplete.

    Args:
        plan: what to visit.
        call: takes the axes as keyword arguments.
        scope: the observation in progress.
        comparison: compares each point with eager; None for no comparison.
        track: shows progress while it yields the points.
    """
    visited: list[SweepPoint] = []
    first_traceback: str | None = None
    interrupted_by: KeyboardInterrupt | None = None
    scope.reset()
    try:
        for values in track(plan.points()):
            point, trace = _visit(values, call, scope, comparison)
            visited.append(point)
            first_traceback = first_traceback or trace
    except KeyboardInterrupt as error:
        interrupted_by = error
    sweep = Sweep(
        workload=plan.workload,
        order=str(plan.order),
        axes={axis.name: axis.values for axis in plan.axes},
        points=tuple(visited),
        warnings=plan.warnings,
        completed=interrupted_by is None,
    )
    return Walk(sweep, first_traceback, interrupted_by)


def _visit(
    values: Point,
    call: Callable[..., object],
    scope: Scope,
    comparison: Comparison | None,
) -> tuple[SweepPoint, str | None]:
    """Run one point. Returns it, and the traceback if it raised."""
    started = time.perf_counter()
    seconds: float | None = None
    parity: Parity | None = None
    try:
        with scope.at(values):
            # Without a comparison the result is dropped here, so that two points' outputs are never alive together.
            compare = None if comparison is None else comparison.run(lambda: call(**values))
            if compare is None:
                call(**values)
            _wait_for_device()
        seconds = time.perf_counter() - started
        if compare is not None:
            # The eager run is our own, not a fallback.
            with scope.aside():
                parity = compare()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the user's code may raise anything; the sweep goes on)
        took = time.perf_counter() - started if seconds is None else seconds
        return SweepPoint(values=values, status="error", seconds=took, error=one_line(error)), user_traceback(error)
    return SweepPoint(values=values, status="ok", seconds=seconds, parity=parity), None


def _wait_for_device() -> None:
    """Make an asynchronous CUDA error surface at the point that caused it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
