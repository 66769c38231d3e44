"""Which points a sweep visits, and what the command line may say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilescope.errors import UsageError, WorkloadError
from compilescope.workloads.declare import Axis
from compilescope.workloads.points import Order, override, parse_order, read_value

if TYPE_CHECKING:
    from compilescope.record import Scalar

HEIGHT, TEXT = Axis("height", [3, 5]), Axis("text", [0, 7, 77])


def test_grid_varies_the_last_axis_fastest() -> None:
    visited = [(p["height"], p["text"]) for p in Order().points([HEIGHT, TEXT])]
    assert visited == [(3, 0), (3, 7), (3, 77), (5, 0), (5, 7), (5, 77)]


def test_one_at_a_time_rests_the_other_axes_at_their_first_value() -> None:
    visited = [(p["height"], p["text"]) for p in Order("one_at_a_time").points([HEIGHT, TEXT])]
    assert visited == [(3, 0), (5, 0), (3, 7), (3, 77)]


def test_random_is_the_grid_in_an_order_that_its_seed_fixes() -> None:
    first, again, other = (Order("random", seed=seed).points([HEIGHT, TEXT]) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert sorted(map(str, first)) == sorted(map(str, Order().points([HEIGHT, TEXT])))


def test_no_axes_make_one_point() -> None:
    assert Order().points([]) == [{}]


axes_strategy = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(), min_size=1, max_size=4)), unique_by=lambda pair: pair[0]
)


@given(axes_strategy, st.sampled_from(["grid", "one_at_a_time", "random"]))
def test_return_to_start_adds_the_first_point_and_changes_nothing_else(
    pairs: list[tuple[str, list[int]]], name: str
) -> None:
    axes = [Axis(axis, values) for axis, values in pairs]
    plain = Order(name).points(axes)
    assert Order(name, returns=True).points(axes) == [*plain, plain[0]]


@given(axes_strategy)
def test_every_order_gives_every_axis_every_value(pairs: list[tuple[str, list[int]]]) -> None:
    axes = [Axis(axis, values) for axis, values in pairs]
    for name in ("grid", "one_at_a_time", "random"):
        points = Order(name).points(axes)
        for axis in axes:
            assert {point[axis.name] for point in points} == set(axis.values)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("grid", Order("grid", seed=3)),
        ("one-at-a-time", Order("one_at_a_time", seed=3)),
        ("random+return_to_start", Order("random", seed=3, returns=True)),
    ],
)
def test_order_is_read(text: str, order: Order) -> None:
    assert parse_order(text, seed=3) == order


@pytest.mark.parametrize("text", ["gird", "grid+", "grid+home"])
def test_unknown_order_names_those_that_there_are(text: str) -> None:
    with pytest.raises(UsageError, match="the orders are grid, one_at_a_time and random"):
        parse_order(text)


def test_order_is_named_with_what_repeats_it() -> None:
    assert str(Order("random", seed=4, returns=True)) == "random(seed=4)+return_to_start"
    assert str(Order("grid", seed=4)) == "grid"


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("-1", -1), ("0.5", 0.5), ("true", True), ("False", False), ("none", None), ("bf16", "bf16")],
)
def test_value_is_read_as_what_it_looks_like(text: str, value: Scalar) -> None:
    read = read_value(text)
    assert read == value
    assert type(read) is type(value)


def test_value_in_the_place_of_a_string_stays_a_string() -> None:
    assert read_value("7", like="3") == "7"
    assert override([Axis("size", ["3", "5"])], {"size": ["7"]}, where="w") == [Axis("size", ["7"])]
    assert override([Axis("size", ["all", 5])], {"size": ["7"]}, where="w") == [Axis("size", [7])]


def test_override_replaces_the_values_of_the_named_axis_alone() -> None:
    assert override([HEIGHT, TEXT], {"text": ["1", "2"]}, where="w") == [HEIGHT, Axis("text", [1, 2])]


def test_override_of_an_unknown_axis_names_the_axes_and_a_guess() -> None:
    with pytest.raises(UsageError, match=r"^w has no axis 'txt': its axes are height and text. Did you mean text\?$"):
        override([HEIGHT, TEXT], {"txt": ["1"]}, where="w")


def test_override_where_there_are_no_axes_says_so() -> None:
    with pytest.raises(UsageError, match="it has no axes"):
        override([], {"n": ["1"]}, where="w")


def test_override_with_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(WorkloadError, match="finite"):
        override([HEIGHT], {"height": ["nan"]}, where="w")
