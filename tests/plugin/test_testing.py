"""The helper functions, which need no plugin."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import compilescope
from compilescope.errors import UsageError
from compilescope.storage import from_json, to_json
from compilescope.testing import assert_compile_budget, assert_max_graph_breaks, assert_no_shape_recompile

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Block(nn.Module):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Other(Block):
    """Another, with a print in it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("other")  # noqa: T201 (the graph break)
        return self.layer(x) + 1


def through(function: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(function)
    def inner(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return function(self, x)

    return inner


class Decorated(Block):
    """A layer whose forward runs within a decorator's."""

    forward = through(Block.forward)


class AlsoDecorated(Block):
    """Another layer with the same code."""

    forward = through(Block.forward)


def observed(
    cls: type[nn.Module], *lengths: int, dynamic: bool, targets: tuple[object, ...] = ()
) -> compilescope.Scope:
    model = cls()
    model.compile(backend="eager", dynamic=dynamic)
    with compilescope.observe(targets, count_runs=True) as scope:
        for length in lengths:
            model(torch.ones(length, 4))
    return scope


def test_general_shapes_hold_for_every_way_to_name_the_target() -> None:
    scope = observed(Block, 2, 3, dynamic=True)
    for target in (Block, Block.forward, Block(), "Block.forward", "*.forward"):
        assert_no_shape_recompile(scope, target)


def test_class_whose_forward_is_a_decorators_inner_function_is_found_where_it_ran() -> None:
    scope = observed(Decorated, 2, 3, dynamic=True)
    assert_no_shape_recompile(scope, Decorated)
    with pytest.raises(AssertionError, match="CS102"):
        assert_no_shape_recompile(scope, AlsoDecorated)


def test_static_shapes_are_explained() -> None:
    scope = observed(Block, 2, 3, dynamic=False, targets=(Block,))
    with pytest.raises(AssertionError, match=r"(?s)CS203 .*\(2 -> 3\).*hint: dynamic=False keeps every size static"):
        assert_no_shape_recompile(scope, Block)


@pytest.mark.parametrize("targets", [(), (Block,)])
def test_target_that_was_not_compiled_fails_whether_or_not_the_recorder_knew_of_it(targets: tuple[object, ...]) -> None:
    scope = observed(Other, 2, dynamic=True, targets=targets)
    with pytest.raises(AssertionError, match=r"Block\.forward was never reached; these were compiled: Other\.forward"):
        assert_no_shape_recompile(scope, Block)


def test_recording_that_counted_no_runs_cannot_tell() -> None:
    with compilescope.observe() as scope:
        torch.compile(Block(), backend="eager")(torch.ones(2, 4))
    with pytest.raises(AssertionError, match="Calls were not counted"):
        assert_no_shape_recompile(scope, Block)
    assert_no_shape_recompile(scope, Block, allow_fallbacks="*")


def test_saved_recording_is_judged_too() -> None:
    saved = from_json(to_json(observed(Block, 2, 3, dynamic=False).recording))
    assert_compile_budget(saved, Block, compiles=2, kinds={"size": 1})
    with pytest.raises(AssertionError, match="compiled 2 times, 1 allowed"):
        assert_compile_budget(saved, Block, compiles=1)


def test_graph_breaks() -> None:
    scope = observed(Other, 2, dynamic=True)
    assert_max_graph_breaks(scope, 1)
    with pytest.raises(AssertionError, match="1 graph break, 0 allowed"):
        assert_max_graph_breaks(scope, 0)


def test_failure_ends_where_the_user_stands() -> None:
    scope = observed(Other, 2, dynamic=True)
    with pytest.raises(AssertionError) as caught:
        assert_max_graph_breaks(scope, 0)
    shown = caught.traceback.filter(caught)
    assert [entry.name for entry in shown] == ["test_failure_ends_where_the_user_stands"]


def test_wrong_arguments() -> None:
    scope = observed(Block, 2, dynamic=True)
    with pytest.raises(UsageError, match="limits nothing"):
        assert_compile_budget(scope, Block)
    with pytest.raises(TypeError, match="broken= is for marks"):
        assert_no_shape_recompile(scope, Block, broken="why")


class Parent(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Heir(Parent):
    pass


def test_compilations_of_a_parent_do_not_count_for_a_class_that_inherits_its_forward() -> None:
    with compilescope.observe(count_runs=True) as scope:
        block = Parent()
        block.compile(backend="eager", dynamic=True)
        for size in (3, 4):
            block(torch.ones(size))
    assert_no_shape_recompile(scope, Parent)
    with pytest.raises(AssertionError, match=r"Target Heir\.forward was never reached"):
        assert_no_shape_recompile(scope, Heir)
