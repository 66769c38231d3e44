"""Values that Dynamo would take for one another are warned of before a sweep, and others are not."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from compilescope.workloads.coincidence import coincidences
from compilescope.workloads.declare import Axis
from compilescope.workloads.points import Order
from compilescope.workloads.reach import modules_of, static_widths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compilescope.record import Scalar


def warnings(widths: Sequence[int] = (), **axes: list[Scalar]) -> tuple[str, ...]:
    points = Order().points([Axis(name, values) for name, values in axes.items()])
    return coincidences(points, {width: f"layer.weight ({width}, 3)" for width in widths})


def test_equal_sizes_at_the_first_point_are_duck_sized() -> None:
    (said,) = warnings(height=[32, 64], width=[32, 48])
    assert said.startswith("height and width are both 32 at the first point")
    assert "duck" in said


@pytest.mark.parametrize("axes", [{"a": [4, 8], "b": [5, 8]}, {"a": [1, 4], "b": [1, 7]}, {"a": [0, 4], "b": [0, 7]}])
def test_sizes_that_differ_at_first_or_get_no_symbol_are_not_warned_of(axes: dict[str, list[Scalar]]) -> None:
    assert warnings(**axes) == ()


def test_fixed_width_of_the_model_is_told_with_a_parameter_that_has_it() -> None:
    (said,) = warnings(text=[32, 77], widths=[32, 64])
    assert said.startswith("text is 32 at the first point, and so is a fixed width of the model (layer.weight (32, 3))")


def test_tokens_are_height_times_width() -> None:
    (said,) = warnings(height=[4, 5], width=[8], widths=[32])
    assert said.startswith("height*width is 32 at the first point, and so is a fixed width")
    (said,) = warnings(height=[4, 5], width=[8], text=[32])
    assert said.startswith("text and height*width are both 32")


def test_size_that_never_varies_may_go_static() -> None:
    assert warnings(text=[32, 32], batch=[2, 4], widths=[32]) == ()


def test_equal_sizes_that_never_part_are_no_coincidence() -> None:
    assert warnings(height=[32], width=[32], text=[7, 9]) == ()


def test_later_points_matter_only_to_tell_what_varies() -> None:
    assert warnings(text=[77, 32], widths=[32]) == ()


@pytest.mark.parametrize("values", [["32", "64"], [True, False], [None, 32], [32.0, 64.0]])
def test_values_that_are_no_sizes_coincide_with_nothing(values: list[Scalar]) -> None:
    assert warnings(mode=values, other=[9, 10], widths=[32]) == ()


def test_axis_that_is_no_size_at_some_point_still_varies() -> None:
    (said,) = warnings(text=[32, None], widths=[32])
    assert said.startswith("text is 32")


def test_flood_is_cut() -> None:
    said = warnings(**{name: [7, 9] for name in "abcde"})  # ten pairs
    assert len(said) == 7
    assert said[-1] == "4 more values of the first point coincide."


def test_no_points_no_warnings() -> None:
    assert coincidences([], {32: "w"}) == ()


class Pipeline:
    """What holds a model in a library of pipelines."""

    def __init__(self, model: nn.Module) -> None:
        self.transformer = model

    def __call__(self, text: torch.Tensor) -> object:
        """Run the model."""
        return self.transformer(text)

    def run(self, text: torch.Tensor) -> object:
        """Run the model by another name."""
        return self(text)


def closure_over(call: object) -> object:
    def call_it(text: torch.Tensor) -> object:
        return call(text)

    return call_it


def closure_over_a_container(model: nn.Sequential) -> object:
    held = {"m": [model]}

    def call_it(text: torch.Tensor) -> object:
        return held["m"][0](text)

    return call_it


model_in_globals = nn.Linear(2, 2)


def call_global(text: torch.Tensor) -> object:
    return model_in_globals(text)


@pytest.fixture
def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 10, bias=False), nn.LayerNorm(10))


@pytest.mark.parametrize(
    "hold",
    [
        closure_over,
        lambda model: functools.partial(lambda m, text: m(text), model),
        lambda model: functools.partial(lambda text, m: m(text), m=model),
        lambda model: model.forward,
        lambda model: model,
        Pipeline,
        lambda model: Pipeline(model).run,
        lambda model: closure_over(closure_over(model)),
        closure_over_a_container,
        lambda model: torch.compile(model, backend="eager"),
    ],
)
def test_model_is_found_however_the_callable_holds_it(
    hold: Callable[[nn.Module], Callable[..., object]], model: nn.Sequential
) -> None:
    assert static_widths(hold(model)).keys() == {6, 10}


def test_model_in_a_global_is_found() -> None:
    assert modules_of(call_global) == [model_in_globals]


def test_libraries_are_not_searched() -> None:
    assert modules_of(lambda: torch.ones(pytest.approx(1))) == []


def test_widths_name_a_parameter_and_leave_out_one(model: nn.Sequential) -> None:
    model.append(nn.Linear(1, 4))
    assert static_widths(lambda: model) == {6: "0.weight (10, 6)", 10: "0.weight (10, 6)", 4: "2.weight (4, 1)"}


def test_warned_sweep_compiles_for_each_value_and_the_advised_one_does_not(model: nn.Sequential) -> None:
    """The doubt is well founded: a first length equal to the inner width goes static, another stays free."""
    graphs = []

    def backend(graph: Callable[..., object], _: object) -> Callable[..., object]:
        graphs.append(graph)
        return graph

    def compiles(lengths: list[int]) -> int:
        torch.compiler.reset()
        graphs.clear()
        compiled = torch.compile(nn.LayerNorm(10), backend=backend, dynamic=True)
        for length in lengths:
            compiled(torch.ones(length, 10))
        return len(graphs)

    assert warnings(text=[10, 7, 12], widths=static_widths(model))
    assert compiles([10, 7, 12]) == 2
    assert not warnings(text=[7, 10, 12], widths=static_widths(model))
    assert compiles([7, 10, 12]) == 1
