"""Axes without values get sizes that coincide with nothing, and small ones; the model itself is asked what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compilescope.workloads.model.default_axes import Chosen, Search
from compilescope.workloads.model.input_spec import read_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from compilescope.record import Scalar

    Runs = Callable[[Mapping[str, Scalar]], str | None]


def anything(_: Mapping[str, Scalar]) -> None:
    return None


def search(spec: str, runs: Runs = anything, widths: tuple[int, ...] = ()) -> Chosen | str:
    inputs = read_inputs([spec])
    sizes = [size for tensor in inputs.tensors for size in tensor.sizes if size.axes]
    free = [name for name, values in inputs.axes.items() if values is None]
    given = {name: values for name, values in inputs.axes.items() if values is not None}
    return Search(free, given, sizes, dict.fromkeys(widths, "weight"), runs).choose()


def axes(spec: str, runs: Runs = anything, widths: tuple[int, ...] = ()) -> dict[str, tuple[Scalar, ...]]:
    chosen = search(spec, runs, widths)
    assert isinstance(chosen, Chosen)
    return chosen.axes


def test_axis_gets_two_odd_sizes_then_two_one_and_zero() -> None:
    assert axes("x=f32[n,16]") == {"n": (5, 7, 2, 1, 0)}


def test_axes_begin_at_sizes_of_their_own() -> None:
    found = axes("x=f32[batch,height*width]; y=f32[batch,text]")
    assert len({values[0] for values in found.values()}) == len(found)


def test_no_size_meets_a_width_of_the_model() -> None:
    assert axes("x=f32[n]", widths=(5, 7, 11)) == {"n": (13, 17, 2, 1, 0)}


def test_product_of_axes_meets_no_width_either() -> None:
    found = axes("x=f32[h*w]", widths=(35,))
    assert found["h"][0] * found["w"][0] != 35  # type: ignore[operator]  # sizes are whole numbers


def test_given_values_stay() -> None:
    assert axes("x=f32[n]; s=0.5,1.0")["s"] == (0.5, 1.0)


def multiple_of_16(point: Mapping[str, Scalar]) -> str | None:
    height = point["h"]
    assert isinstance(height, int)
    return "ValueError: not a multiple" if height % 16 or not height else None


def test_axis_that_must_be_a_multiple_gets_multiples_and_the_others_stay_small() -> None:
    found = axes("x=f32[b,h]", multiple_of_16)
    assert found["h"] == (80, 112)
    assert found["b"] == (5, 7, 2, 1, 0)


def test_values_that_the_model_refuses_are_named_with_what_it_raised() -> None:
    chosen = search("x=f32[b,h]", multiple_of_16)
    assert isinstance(chosen, Chosen)
    assert chosen.refused == tuple(("h", value, "ValueError: not a multiple") for value in (2, 1, 0))


def test_axis_that_may_not_vary_keeps_one_value() -> None:
    assert axes("x=f32[n]", lambda point: None if point["n"] == 5 else "no") == {"n": (5,)}


def test_what_the_model_raised_is_returned_where_nothing_runs() -> None:
    assert search("x=f32[n]", lambda _: "RuntimeError: never") == "RuntimeError: never"


@pytest.mark.parametrize("spec", ["x=f32[a,b,c,d]", "x=f32[a*b,c*d]", "x=f32[a+b,a,b]"])
def test_sizes_at_the_first_point_are_unequal(spec: str) -> None:
    found = axes(spec)
    first = {name: values[0] for name, values in found.items()}
    sizes = [size.at(first) for tensor in read_inputs([spec]).tensors for size in tensor.sizes]
    assert len(set(sizes)) == len(sizes)
