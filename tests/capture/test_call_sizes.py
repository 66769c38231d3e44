"""The sizes of calls are read where that runs nobody's code; what cannot be read is not claimed to be the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from compilescope import observe
from compilescope.capture.call_sizes import CallSizes

if TYPE_CHECKING:
    from collections.abc import Callable

    Calls = Callable[[Callable[..., Any]], None]

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def noted(*calls: object, called: object = "one callable") -> CallSizes:
    sizes = CallSizes()
    for call in calls:
        sizes.note(called, (call,), {})
    return sizes


SAME = {
    "tensors of equal sizes": (torch.ones(2, 3), torch.zeros(2, 3)),
    "parameters": (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
    "floats, flags, words": ((0.5, True, "a", None), (1.5, False, "b", None)),
    "nested": ({"x": [torch.ones(2), 3]}, {"x": [torch.ones(2), 3]}),
}
DIFFERENT = {
    "tensors": (torch.ones(2), torch.ones(3)),
    "dimensions": (torch.ones(2), torch.ones(2, 1)),
    "whole numbers": (2, 3),
    "nested": ({"x": [torch.ones(2)]}, {"x": [torch.ones(3)]}),
    "lengths": ([torch.ones(2)], [torch.ones(2), torch.ones(2)]),
    "keys": ({"x": 1}, {"y": 1}),
}


class Sub(torch.Tensor):
    pass


UNREADABLE = {
    "an object": object(),
    "a subclass": torch.ones(2).as_subclass(Sub),
    "keys that are not words": {1: torch.ones(2)},
    "too deep": [[[[[torch.ones(2)]]]]],
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_equal_sizes_are_the_same(pair: tuple[object, object]) -> None:
    assert noted(*pair).are_the_same(dynamic=False)


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_other_sizes_are_not(pair: tuple[object, object]) -> None:
    assert not noted(*pair).are_the_same(dynamic=False)


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_not_claimed(value: object) -> None:
    assert not noted(value).are_the_same(dynamic=False)


def test_no_call_claims_nothing() -> None:
    assert not CallSizes().are_the_same(dynamic=False)


def test_dynamic_callable_that_was_called_twice_may_hold_what_grew() -> None:
    assert noted(torch.ones(2)).are_the_same(dynamic=True)
    assert not noted(torch.ones(2), torch.ones(2)).are_the_same(dynamic=True)


def test_user_s_function_mode_is_not_run() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, *_: object, **__: object) -> object:
            raise AssertionError

    with Mode():
        sizes = noted(torch.ones)
        sizes.note("callable", (TENSOR,), {})
    assert not sizes.are_the_same(dynamic=False)


TENSOR = torch.ones(2)


def scaled(x: torch.Tensor, n: int = 1) -> torch.Tensor:
    return x * n


def repeated(f: Callable[..., Any]) -> None:
    f(torch.ones(3))
    f(torch.ones(3))


def varied(f: Callable[..., Any]) -> None:
    f(torch.ones(3))
    f(torch.ones(4))


@pytest.mark.parametrize(
    ("dynamic", "calls", "expected"),
    [(None, repeated, False), (None, varied, None), (True, varied, None), (True, repeated, None)],
)
def test_target_says_whether_its_calls_varied(dynamic: bool | None, calls: Calls, expected: bool | None) -> None:  # noqa: FBT001
    with observe([scaled], count_runs=True) as scope:
        calls(torch.compile(scaled, backend="eager", dynamic=dynamic))
    assert scope.recording.targets[0].varied is expected


def test_blocks_of_one_class_that_are_called_once_each_did_not_vary() -> None:
    class Block(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with observe([Block], count_runs=True) as scope:
        for block in (Block(), Block()):
            block.compile(backend="eager", dynamic=True)
            block(torch.ones(3))
    assert scope.recording.targets[0].varied is False


def test_calls_that_are_not_counted_claim_nothing() -> None:
    with observe([scaled]) as scope:
        repeated(torch.compile(scaled, backend="eager"))
    assert scope.recording.targets[0].varied is None
