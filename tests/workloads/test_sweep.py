"""A sweep visits its points in order, stamps them, and loses nothing when one of them fails."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from compilescope.record import Parity
from compilescope.workloads.declare import Axis
from compilescope.workloads.points import Order
from compilescope.workloads.sweep import Plan, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from compilescope.workloads.points import Point


class FakeScope:
    """Keeps what a sweep asked of the observation, in order."""

    def __init__(self) -> None:
        self.log = []

    @contextlib.contextmanager
    def at(self, values: Point) -> Iterator[None]:
        """Note the point, and the way out of it."""
        self.log.append(values)
        yield
        self.log.append("left")

    def reset(self) -> None:
        """Note it."""
        self.log.append("reset")

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Note the way in and the way out."""
        self.log.append("aside")
        yield
        self.log.append("back")


@pytest.fixture
def scope() -> FakeScope:
    return FakeScope()


@pytest.fixture
def plan() -> Plan:
    return Plan("w", (Axis("n", [1, 2, 3]),), Order())


def test_sweep_starts_from_empty_caches_and_stamps_every_point(scope: FakeScope, plan: Plan) -> None:
    walk(plan, lambda n: n, scope)
    assert scope.log == ["reset", {"n": 1}, "left", {"n": 2}, "left", {"n": 3}, "left"]


def test_sweep_keeps_what_it_was_asked_for(scope: FakeScope, plan: Plan) -> None:
    sweep = walk(Plan("w", plan.axes, Order("random", seed=1), warnings=("doubt",)), lambda n: n, scope).sweep
    assert (sweep.workload, sweep.order, sweep.axes) == ("w", "random(seed=1)", {"n": (1, 2, 3)})
    assert sweep.warnings == ("doubt",)
    assert sweep.completed


@pytest.mark.parametrize("error", [ValueError("no tokens"), SystemExit("no tokens")])
def test_point_that_raises_is_recorded_and_the_sweep_goes_on(
    scope: FakeScope, plan: Plan, error: BaseException
) -> None:
    def call(n: int) -> None:
        if n == 2:
            raise error

    walked = walk(plan, call, scope)
    assert [point.status for point in walked.sweep.points] == ["ok", "error", "ok"]
    failed = walked.sweep.points[1]
    assert failed.error.startswith(f"{type(error).__name__}: no tokens (")
    assert "in call" in walked.traceback
    assert "sweep.py" not in walked.traceback.replace("test_sweep.py", "")
    assert not walked.all_failed


def test_sweep_knows_that_every_point_failed(scope: FakeScope, plan: Plan) -> None:
    assert walk(plan, lambda n: n / 0, scope).all_failed


def test_interrupt_ends_the_sweep_and_keeps_what_was_visited(scope: FakeScope, plan: Plan) -> None:
    def call(n: int) -> None:
        if n == 2:
            raise KeyboardInterrupt

    sweep = walk(plan, call, scope).sweep
    assert not sweep.completed
    assert [point.values for point in sweep.points] == [{"n": 1}]


def test_progress_hands_out_the_points(scope: FakeScope, plan: Plan) -> None:
    shown = []

    def track(points: Sequence[Point]) -> Iterator[Point]:
        for point in points:
            shown.append(point)
            yield point

    walk(plan, lambda n: n, scope, track=track)
    assert shown == [{"n": 1}, {"n": 2}, {"n": 3}]


class FakeComparison:
    """Says that results are equal, after calling twice as the real one does."""

    parity = Parity(max_abs=0.0, relative_l2=0.0, psnr=None, bitwise=True)

    def __init__(self, log: list[object]) -> None:
        self.log = log

    def run(self, call: Callable[[], object]) -> Callable[[], Parity]:
        """Call once; the returned function calls again."""
        call()

        def compare() -> Parity:
            self.log.append("compared")
            call()
            return self.parity

        return compare


def test_parity_is_taken_outside_stamp_and_count(scope: FakeScope, plan: Plan) -> None:
    points = walk(plan, lambda n: n, scope, comparison=FakeComparison(scope.log)).sweep.points
    assert [point.parity for point in points] == [FakeComparison.parity] * 3
    assert scope.log[1:6] == [{"n": 1}, "left", "aside", "compared", "back"]


def test_parity_that_was_not_asked_for_is_none(scope: FakeScope, plan: Plan) -> None:
    assert {point.parity for point in walk(plan, lambda n: n, scope).sweep.points} == {None}
