"""The line that pins a dynamic size is found in torch's shape environment, and none where nothing pins it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.output_graph import OutputGraph
from torch.fx.experimental import _config as shape_config

from compilescope.capture.size_pins import Pin, size_pins

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

SLOTS = {3: 1}


def lookup(image: Tensor) -> Tensor:
    rows = image.shape[0]
    slot = SLOTS.get(rows, 0)  # here
    return image + slot


def text(image: Tensor) -> Tensor:
    name = f"rows_{image.shape[0]}"  # here
    return image + len(name)


def loop(image: Tensor) -> Tensor:
    total = image
    for index in range(image.shape[0]):  # here
        total = total + index
    return total


def equal_to_a_constant(image: Tensor) -> Tensor:
    if image.shape[0] == 5:  # here
        return image + 1
    return image - 1


def rows_of(image: Tensor) -> int:
    names = ["row"] * image.shape[0]  # here
    return len(names)


def in_a_function_that_is_inlined(image: Tensor) -> Tensor:
    return image + rows_of(image)


def equal_then_constant(image: Tensor) -> Tensor:
    return image + len(f"{image.shape[1]}") if image.shape[0] == image.shape[1] else image  # here


PINNING: dict[Callable[[Tensor], Tensor], Callable[..., Any]] = {
    lookup: lookup,
    text: text,
    loop: loop,
    equal_to_a_constant: equal_to_a_constant,
    in_a_function_that_is_inlined: rows_of,
    equal_then_constant: equal_then_constant,
}


def pins_of(function: Callable[[Tensor], Tensor], image: Tensor, monkeypatch: pytest.MonkeyPatch) -> dict[str, Pin]:
    environments: list[Any] = []
    original = OutputGraph.__init__

    def init(graph: Any, *args: Any, **kwargs: Any) -> None:
        original(graph, *args, **kwargs)
        environments.append(graph.shape_env)

    monkeypatch.setattr(OutputGraph, "__init__", init)
    torch.compile(function, backend="eager", dynamic=True)(image)
    return size_pins(environments[-1])


@pytest.mark.parametrize("function", PINNING, ids=lambda function: function.__name__)
def test_line_that_needs_the_size_as_a_constant_is_named(
    function: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = pins_of(function, torch.ones(5, 5), monkeypatch)
    if function is in_a_function_that_is_inlined and not pins and torch.__version__.startswith("2.11."):
        pytest.skip("torch 2.11 names no line there")
    lines, start = inspect.getsourcelines(PINNING[function])
    marked = start + next(index for index, line in enumerate(lines) if line.rstrip().endswith("# here"))
    assert "L['image'].size()[0]" in pins
    pin = pins["L['image'].size()[0]"].where
    assert (pin.line, pin.function) == (marked, PINNING[function].__name__)
    assert pin.text is not None
    assert pin.text.endswith("# here")
    assert pin.file.endswith("test_size_pins.py")


def test_one_that_is_told_from_other_sizes_is_pinned_though_sizes_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_or_many(image: Tensor) -> Tensor:
        return image if image.shape[0] == 1 else image * 2

    with shape_config.patch(backed_size_oblivious=True):
        pins = pins_of(one_or_many, torch.ones(1, 5), monkeypatch)
        assert pins["L['image'].size()[0]"].where.function == "one_or_many"
        torch.compiler.reset()
        assert pins_of(one_or_many, torch.ones(4, 5), monkeypatch) == {}


def test_equal_dimensions_share_what_pins_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pins = pins_of(lookup, torch.ones(5, 5), monkeypatch)
    assert pins["L['image'].size()[0]"].shared == ("L['image'].size()[1]",)
    torch.compiler.reset()
    assert pins_of(lookup, torch.ones(5, 7), monkeypatch)["L['image'].size()[0]"].shared == ()


def test_only_the_dimension_that_is_needed_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(pins_of(text, torch.ones(5, 7), monkeypatch)) == {"L['image'].size()[0]"}


@pytest.mark.parametrize(
    "function",
    [
        lambda image: image * image.shape[0],
        lambda image: image + 1 if image.shape[0] > 3 else image,
        lambda image: image * int(image.shape[0]),
        lambda image: image.view(-1) if image.shape[0] % 2 else image,
    ],
    ids=["arithmetic", "bound", "int", "remainder"],
)
def test_size_that_stays_dynamic_is_pinned_by_no_line(
    function: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pins_of(function, torch.ones(5, 7), monkeypatch) == {}
