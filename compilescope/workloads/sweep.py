"""Runs a workload over its points, stamping what each of them compiles. Imports no torch itself."""

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
    """What a sweep needs of an observation in progress; :class:`compilescope.observing.Scope` has it."""

    @property
    def recording(self) -> Recording:
        """What was recorded so far."""

    def at(self, values: dict[str, Scalar]) -> AbstractContextManager[None]:
        """Stamp the compilations made inside with the point."""

    def aside(self) -> AbstractContextManager[None]:
        """Keep the calls made inside out of the count of eager calls."""

    def add_sweep(self, sweep: Sweep) -> None:
        """Add a finished or interrupted sweep to the recording."""

    def reset(self) -> None:
        """Empty the caches of torch.compile."""


class Comparison(Protocol):
    """Runs a call and measures how far it is from the same call without a compiler."""

    def run(self, call: Callable[[], object]) -> Callable[[], Parity | None]:
        """Make the compiled call; return what makes the eager one and compares."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to visit.

    Attributes:
        workload: its name.
        axes: with the values chosen for this sweep.
        order: how to walk them.
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
    """A sweep that was walked.

    Attributes:
        sweep: what became of its points.
        traceback: of the first that failed, for people.
        interrupted_by: what ended it before its last point; None where nothing did.
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

    A point that raises is recorded and the sweep goes on. Ctrl-C or SIGTERM ends it; what was visited
    is kept, and the sweep says that it was not completed.

    Args:
        plan: what to visit.
        call: takes the axes as keyword arguments.
        scope: the observation in progress.
        comparison: compares each point with eager; None leaves parity unlooked at.
        track: shows progress while it hands out the points.
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
    """Run one point. Returns it, and the traceback where it raised."""
    started = time.perf_counter()
    seconds: float | None = None
    parity: Parity | None = None
    try:
        with scope.at(values):
            # Without a comparison the result is dropped here: two points' outputs are never alive together.
            compare = None if comparison is None else comparison.run(lambda: call(**values))
            if compare is None:
                call(**values)
            _wait_for_device()
        seconds = time.perf_counter() - started
        if compare is not None:
            # The eager run is our own: it is no call that ran eager unasked.
            with scope.aside():
                parity = compare()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the user's code may raise anything; the sweep goes on)
        took = time.perf_counter() - started if seconds is None else seconds
        return SweepPoint(values=values, status="error", seconds=took, error=one_line(error)), user_traceback(error)
    return SweepPoint(values=values, status="ok", seconds=seconds, parity=parity), None


def _wait_for_device() -> None:
    """Let an asynchronous CUDA error surface at the point that caused it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
