"""A compilation is laid to the axis that made it, and no axis is called free that was not seen to be."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compilescope.analysis.axes import summarise, with_axes
from compilescope.analysis.blame import moved
from compilescope.record import (
    AxisSummary,
    Compilation,
    CompileError,
    EntryMiss,
    Failure,
    Meta,
    Recompile,
    Recording,
    Sweep,
    SweepPoint,
)
from compilescope.workloads.declare import Axis
from compilescope.workloads.points import Order

if TYPE_CHECKING:
    from compilescope.record import Outcome, Scalar


def cause(kind: str = "size", expected: str = "16", actual: str = "24") -> Failure:
    return Failure(source="x", guard="g", expected=expected, actual=actual, guard_type="TENSOR_MATCH", kind=kind)


@dataclasses.dataclass
class Story:
    """A sweep and what compiled in it, written down as it happens."""

    axes: dict[str, tuple]
    order: Order = dataclasses.field(default_factory=Order)
    failing: tuple[int, ...] = ()
    compilations: list[Compilation] = dataclasses.field(default_factory=list)

    @property
    def points(self) -> list[dict[str, Scalar]]:
        """What the sweep visits."""
        return self.order.points([Axis(name, values) for name, values in self.axes.items()])

    def compiled(
        self,
        place: int | dict[str, Scalar],
        closest: int | None = None,
        *causes: Failure,
        code: str = "f",
        outcome: Outcome = "compiled",
        error: CompileError | None = None,
    ) -> Story:
        """Note a compilation at the point ``place``; ``closest`` is the number of an earlier compilation."""
        number = len(self.compilations)
        recompile = None
        if closest is not None:
            held = causes or (cause(),)
            miss = EntryMiss(id=f"0/{closest}", failing=held)
            recompile = Recompile(entries=(miss,), closest=f"0/{closest}", causes=held)
        point = self.points[place] if isinstance(place, int) else place
        self.compilations.append(
            Compilation(
                id=f"0/{number}",
                code=code,
                outcome=outcome,
                seconds=0.1,
                point=point,
                error=error,
                recompile=recompile,
            )
        )
        return self

    @property
    def sweep(self) -> Sweep:
        """The sweep, not summarised."""
        points = tuple(
            SweepPoint(values=values, status="error" if place in self.failing else "ok", seconds=0.1)
            for place, values in enumerate(self.points)
        )
        return Sweep(workload="w", order=str(self.order), axes=self.axes, points=points)

    @property
    def summary(self) -> dict[str, AxisSummary]:
        """What is said of its axes."""
        return summarise(self.sweep, self.compilations)

    @property
    def recording(self) -> Recording:
        """The sweep with its compilations."""
        meta = Meta(compilescope="1", torch="2", python="3", platform="Linux", device="cpu")
        return Recording(meta=meta, compilations=tuple(self.compilations), sweeps=(self.sweep,))


FREE = AxisSummary(free=True, compiles_at=(), because=())


def compiles(
    *values: Scalar, because: tuple[str, ...] = ("size",), free_except: tuple[Scalar, ...] = ()
) -> AxisSummary:
    return AxisSummary(free=False, compiles_at=values, because=because, free_except=free_except)


def corners(story: Story) -> Sweep:
    """Return the sweep that visited the first point and the last alone: between them every axis moved."""
    return msgspec.structs.replace(story.sweep, points=(story.sweep.points[0], story.sweep.points[-1]))


def test_axis_is_free_where_only_the_first_point_compiled() -> None:
    assert Story({"n": (3, 5, 7)}).compiled(0).summary == {"n": FREE}


def test_first_change_costs_one_compilation_and_is_told() -> None:
    """Automatic dynamic shapes: static for 3, dynamic from 5 on."""
    assert Story({"n": (3, 5, 7)}).compiled(0).compiled(1, 0).summary == {"n": compiles(5)}


def test_compilation_is_laid_to_the_one_axis_that_moved() -> None:
    story = Story({"h": (3, 5), "t": (7, 77)}).compiled(0).compiled(1, 0)
    assert story.summary == {"h": FREE, "t": compiles(77)}


def test_kinds_of_all_causes_are_told_once() -> None:
    story = (
        Story({"n": (3, 5, 7)}).compiled(0).compiled(1, 0, cause("size"), cause("stride")).compiled(2, 1, cause("size"))
    )
    assert story.summary == {"n": compiles(5, 7, because=("size", "stride"))}


def test_second_layer_of_one_forward_is_laid_to_no_axis() -> None:
    assert Story({"n": (3, 5)}).compiled(0).compiled(0, 0, cause("view_base")).summary == {"n": FREE}


def test_second_layer_at_a_later_point_is_laid_to_no_axis_when_its_closest_entry_is_from_there() -> None:
    story = Story({"n": (3, 5)}).compiled(0).compiled(1, 0).compiled(1, 1, cause("view_base"))
    assert story.summary == {"n": compiles(5)}


def test_state_that_changed_by_the_return_to_the_start_is_laid_to_no_axis() -> None:
    story = Story({"n": (3, 5)}, Order(returns=True)).compiled(0).compiled({"n": 5}, 0)
    assert story.compiled({"n": 3}, 1, cause("module_attr_int")).summary == {"n": compiles(5)}


def test_axis_free_but_for_zero_and_one() -> None:
    story = Story({"t": (7, 77, 0, 1)}).compiled(0)
    story.compiled(2, 0, cause("zero_one", ">= 2", "0")).compiled(3, 0, cause("zero_one", ">= 2", "1"))
    assert story.summary == {"t": compiles(0, 1, because=("zero_one",), free_except=(0, 1))}


def test_sweep_that_starts_at_zero_blames_zero() -> None:
    story = Story({"t": (0, 4, 77)}).compiled(0).compiled(1, 0, cause("zero_one", "0", "4"))
    assert story.summary == {"t": compiles(0, because=("zero_one",), free_except=(0,))}


def test_sweep_that_starts_at_zero_and_one_blames_both() -> None:
    story = Story({"t": (0, 1, 7, 77)}).compiled(0).compiled(1, 0, cause("zero_one", "0", "1"))
    story.compiled(2, 1, cause("zero_one", "1", "7"))
    assert story.summary == {"t": compiles(0, 1, because=("zero_one",), free_except=(0, 1))}


def test_compilation_for_another_reason_too_is_laid_to_the_new_value() -> None:
    story = Story({"t": (0, 4, 77)}).compiled(0).compiled(1, 0, cause("zero_one", "0", "4"), cause("dtype"))
    assert story.summary == {"t": compiles(4, because=("zero_one", "dtype"))}


def test_one_other_value_is_not_seen_to_be_free() -> None:
    story = Story({"b": (2, 1)}).compiled(0).compiled(1, 0, cause("zero_one", ">= 2", "1"))
    assert story.summary == {"b": compiles(1, because=("zero_one",))}


def test_booleans_are_no_sizes() -> None:
    story = Story({"cfg": (False, True)}).compiled(0).compiled(1, 0, cause("python_bool", "False", "True"))
    assert story.summary == {"cfg": compiles(*[True], because=("python_bool",))}


def test_one_and_true_are_two_values() -> None:
    assert moved({"n": 1}, {"n": True}) == ("n",)
    assert moved({"n": 1}, {"n": 1}) == ()


def test_of_several_axes_that_moved_the_one_whose_values_the_cause_names() -> None:
    story = Story({"h": (3, 5), "t": (7, 77)}).compiled(0).compiled(3, 0, cause("size", "7", "77"))
    assert story.summary == {"h": FREE, "t": compiles(77)}


def test_of_several_axes_that_moved_cause_that_merely_shares_the_new_value_names_nothing() -> None:
    story = Story({"h": (3, 5), "t": (7, 5)}).compiled(0).compiled(3, 0, cause("size", "7", "5"))
    assert story.summary == {"h": FREE, "t": compiles(5)}


def test_of_several_axes_that_moved_each_cause_names_its_own() -> None:
    story = Story({"h": (3, 5), "t": (7, 0)}).compiled(0)
    story.compiled(3, 0, cause("size", "3", "5"), cause("zero_one", ">= 2", "0"))
    assert story.summary == {"h": compiles(5), "t": compiles(0, because=("zero_one",))}


def test_of_several_axes_that_moved_one_that_no_cause_is_left_for_is_free() -> None:
    story = Story({"h": (3, 5), "t": (7, 77)}).compiled(0).compiled(3, 0, cause("size", "7", "77"))
    assert summarise(corners(story), story.compilations) == {"h": FREE, "t": compiles(77)}


def test_of_several_axes_that_moved_cause_that_names_none_is_laid_to_the_other_one_whose_value_is_new() -> None:
    """Tokens are the height times seven, and no axis has that value."""
    story = Story({"h": (3, 5), "t": (0, 7)}).compiled(0).compiled(1, 0, cause("zero_one", "0", "7"))
    story.compiled(2, 1, cause("size", "21", "35"), cause("zero_one", ">= 2", "0"))
    assert story.summary == {"h": compiles(5), "t": compiles(0, because=("zero_one",))}


def test_of_several_axes_that_moved_the_named_one_keeps_its_own_kinds() -> None:
    story = Story({"h": (3, 5), "t": (7, 77)}).compiled(0)
    story.compiled(3, 0, cause("size", "7", "77"), cause("divisibility", "21", "385"))
    assert summarise(corners(story), story.compilations) == {
        "h": compiles(5, because=("divisibility",)),
        "t": compiles(77),
    }


def test_of_several_axes_that_moved_cause_that_names_none_is_not_laid_to_a_value_that_was_seen() -> None:
    """The joint length follows from the text length that was named; the height was there before."""
    story = Story({"t": (7, 0), "h": (3, 5)}).compiled(0)
    story.compiled(3, 0, cause("size", "10", "5"), cause("zero_one", ">= 2", "0"))
    assert story.summary == {"t": compiles(0, because=("zero_one",)), "h": FREE}


def test_of_several_axes_that_moved_the_one_whose_value_is_new() -> None:
    """At (5, 7) the text length was seen before; only the height can be to blame."""
    story = Story({"h": (3, 5), "t": (7, 77)}).compiled(0).compiled(1, 0, cause("size", "7", "77"))
    story.compiled(2, 1, cause("size", "231", "35"))
    assert story.summary == {"h": compiles(5), "t": compiles(77)}


def test_of_several_axes_that_moved_those_that_alone_separate_the_point_from_one_that_was_visited() -> None:
    """(5, 77, 2) needed a graph, though (3, 77, 2) and (5, 7, 2) had theirs: the height with the text made it."""
    story = Story({"h": (3, 5), "t": (7, 77), "b": (2, 4)}).compiled(0).compiled(6, 0, cause("size", "21", "385"))
    assert story.summary == {"h": compiles(5), "t": compiles(77), "b": FREE}


def test_of_several_axes_that_moved_all_of_them_where_nothing_tells() -> None:
    story = Story({"h": (3, 5), "t": (7, 77)}).compiled(0).compiled(3, 0, cause("size", "21", "385"))
    assert summarise(corners(story), story.compilations) == {"h": compiles(5), "t": compiles(77)}


def test_code_that_is_reached_later_is_laid_to_the_axis_whose_value_is_new() -> None:
    story = Story({"h": (3, 5), "cfg": (False, True)}).compiled(0).compiled(1, code="guided")
    assert story.summary == {"h": FREE, "cfg": compiles(*[True], because=())}


@pytest.mark.parametrize("outcome", ["empty", "skipped"])
def test_code_that_is_reached_later_and_needs_no_graph_is_laid_to_no_axis(outcome: Outcome) -> None:
    story = Story({"h": (3, 5), "cfg": (False, True)}).compiled(0).compiled(1, code="plain", outcome=outcome)
    assert story.summary == {"h": FREE, "cfg": FREE}


def test_code_that_is_reached_later_is_no_finding_where_the_first_point_raised() -> None:
    assert Story({"t": (0, 7, 77)}, failing=(0,)).compiled(0, code="embed").compiled(1).summary == {"t": FREE}


def test_no_axis_is_free_unseen_nothing_compiled() -> None:
    assert Story({"n": (3, 5)}).summary == {}


def test_no_axis_is_free_unseen_nothing_but_attempts() -> None:
    assert Story({"n": (3, 5)}).compiled(0, outcome="skipped").summary == {}


def test_no_axis_is_free_unseen_one_value() -> None:
    assert Story({"n": (3, 5), "b": (1,)}).compiled(0).summary == {"n": FREE}


def test_no_axis_is_free_unseen_every_point_raised() -> None:
    assert Story({"n": (3, 5)}, failing=(0, 1)).compiled(0).summary == {}


def test_no_axis_is_free_unseen_the_other_values_raised() -> None:
    assert Story({"n": (3, 5, 7)}, failing=(1, 2)).compiled(0).summary == {}


def test_no_axis_is_free_unseen_code_that_had_a_graph_and_was_skipped_later() -> None:
    assert Story({"n": (3, 5)}).compiled(0).compiled(0, outcome="skipped").summary == {}


def test_no_axis_is_free_unseen_user_exception_while_tracing_ends_compiling_for_good() -> None:
    error = CompileError(kind="user_exception", type="ValueError", message="no tokens")
    story = Story({"n": (0, 3, 5)}, failing=(0,)).compiled(0, outcome="skipped", error=error).compiled(1, code="g")
    assert story.summary == {}


def test_no_axis_is_free_unseen_code_that_was_skipped_from_the_start_is_no_part_of_what_compiles() -> None:
    assert Story({"n": (3, 5)}).compiled(0).compiled(0, outcome="skipped", code="g").summary == {"n": FREE}


def test_no_axis_is_free_unseen_recompile_limit() -> None:
    story = Story({"n": (3, 5, 7), "b": (2, 4)}).compiled(0).compiled(2, 0, outcome="limit")
    assert story.summary == {"n": compiles(5)}


def test_no_axis_is_free_unseen_recompile_limit_that_raised() -> None:
    limit = CompileError(kind="recompile_limit", type="FailOnRecompileLimitHit", message="limit")
    story = Story({"n": (3, 5, 7), "b": (2, 4)}).compiled(0).compiled(2, 0, outcome="failed", error=limit)
    assert story.summary == {"n": compiles(5)}


def test_compilation_at_a_point_that_was_interrupted_counts() -> None:
    story = Story({"n": (3, 5, 7)}).compiled(0).compiled(1, 0)
    sweep = msgspec.structs.replace(story.sweep, points=story.sweep.points[:1], completed=False)
    assert summarise(sweep, story.compilations) == {"n": compiles(5)}


def test_recompiles_get_the_axes_that_moved_and_the_sweep_its_summary() -> None:
    story = Story({"h": (3, 5), "t": (7, 77)}).compiled(0).compiled(0, 0).compiled(3, 0)
    story.compilations.append(msgspec.structs.replace(story.compilations[2], id="1/0", point=None))
    done = with_axes(story.recording)
    assert [one.recompile and one.recompile.axes for one in done.compilations] == [None, (), ("h", "t"), None]
    assert done.sweeps[0].summary == story.summary


def test_recompile_of_an_entry_from_before_the_sweep_moved_no_axis() -> None:
    story = Story({"n": (3, 5)}).compiled(0).compiled(1, 0)
    story.compilations[0] = msgspec.structs.replace(story.compilations[0], point=None)
    assert with_axes(story.recording).compilations == tuple(story.compilations)


def test_summary_that_is_there_already_is_kept() -> None:
    sweep = msgspec.structs.replace(Story({"n": (3, 5)}).sweep, summary={"n": compiles(9)})
    recording = msgspec.structs.replace(Story({"n": (3, 5)}).compiled(0).recording, sweeps=(sweep,))
    assert with_axes(recording).sweeps == (sweep,)


def test_compilations_outside_the_sweep_are_not_counted() -> None:
    story = Story({"n": (3, 5)}).compiled(0)
    other = Story({"m": (3, 5)}).compiled(1, 0)
    assert summarise(story.sweep, [*story.compilations, *other.compilations]) == {"n": FREE}


def test_what_another_sweep_compiled_or_gave_up_says_nothing_of_this_one() -> None:
    idle, ran = Story({"n": (3, 5)}), Story({"n": (3, 5)}).compiled(0)
    other = Story({"m": (3, 5)}).compiled(0).compiled(1, 0, outcome="limit")
    assert summarise(idle.sweep, other.compilations) == {}
    assert summarise(ran.sweep, [*ran.compilations, *other.compilations]) == {"n": FREE}
    both = msgspec.structs.replace(
        ran.recording,
        compilations=tuple(ran.compilations + other.compilations),
        sweeps=(ran.sweep, other.sweep),
    )
    assert [sweep.summary for sweep in with_axes(both).sweeps] == [ran.summary, other.summary]


AXES = {"h": (3, 5, 7), "t": (0, 1, 7), "cfg": (False, True)}


@st.composite
def stories(draw: st.DrawFn) -> Story:
    names = draw(st.lists(st.sampled_from(sorted(AXES)), min_size=1, unique=True))
    order = draw(st.sampled_from([Order(), Order("one_at_a_time"), Order("random", seed=2), Order(returns=True)]))
    story = Story({name: AXES[name] for name in names}, order)
    last = len(story.points) - 1
    places = sorted(draw(st.lists(st.integers(0, last), min_size=1, max_size=6)))
    for number, place in enumerate([0, *places]):
        closest = draw(st.none() | st.integers(0, number - 1)) if number else None
        kind = draw(st.sampled_from(["size", "zero_one", "stride", "none_vs_value"]))
        values = draw(st.sampled_from(["0", "1", "3", "5", "7", "21"])), draw(st.sampled_from(["0", "3", "7"]))
        story.compiled(place, closest, cause(kind, *values))
    return story


# What is drawn is small; a busy machine must not fail the test for having been slow at it.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@UNHURRIED
@given(stories())
def test_axis_is_free_exactly_where_no_compilation_is_laid_to_it(story: Story) -> None:
    for axis, summary in story.summary.items():
        assert summary.free == (summary.compiles_at == ())
        assert set(summary.compiles_at) <= set(story.axes[axis])
        assert set(summary.free_except) in (set(), set(summary.compiles_at))


@UNHURRIED
@given(stories())
def test_axis_that_rested_whenever_something_compiled_is_free(story: Story) -> None:
    for axis in story.axes:
        if all(axis not in moved(story.points[0], one.point) for one in story.compilations):
            assert story.summary[axis].free


@UNHURRIED
@given(stories())
def test_compilations_at_the_first_point_alone_leave_every_axis_free(story: Story) -> None:
    story.compilations = list(itertools.takewhile(lambda one: one.point == story.points[0], story.compilations))
    assert all(summary.free for summary in story.summary.values())


@UNHURRIED
@given(stories())
def test_filling_in_twice_changes_nothing(story: Story) -> None:
    once = with_axes(story.recording)
    assert with_axes(once) == once


@UNHURRIED
@given(stories())
def test_a_recompile_where_an_axis_moved_is_never_lost(story: Story) -> None:
    """Every recompile at a point that is new to the sweep, and not its closest entry's, is laid to some axis."""
    points = [one.point for one in story.compilations]
    visited = story.points
    for one in story.compilations[1:]:
        first_visit = visited.index(one.point) == max(i for i, p in enumerate(visited) if p == one.point)
        if one.recompile is not None and first_visit:
            old = points[int(one.recompile.closest.partition("/")[2])]
            if moved(old, one.point):
                assert any(not summary.free for summary in story.summary.values())


@pytest.mark.parametrize("order", ["grid", "one_at_a_time", "random"])
def test_order_of_the_visit_does_not_hide_an_axis_that_compiles_for_each_value(order: str) -> None:
    """Compile whenever a value of t is met for the first time, closest to whatever was compiled last."""
    story = Story({"h": (3, 5), "t": (7, 77, 99)}, Order(order, seed=5))
    met = {}
    for place, point in enumerate(story.points):
        if point["t"] not in met:
            closest = len(met) - 1 if met else None
            story.compiled(place, closest, cause("size", str(list(met)[-1] if met else ""), str(point["t"])))
            met[point["t"]] = place
    first = story.points[0]["t"]
    assert story.summary["h"] == FREE
    assert set(story.summary["t"].compiles_at) == {7, 77, 99} - {first}
