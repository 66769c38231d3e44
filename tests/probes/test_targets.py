"""Targets: what the user meant to compile, however it is named, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

import compilescope

if TYPE_CHECKING:
    from collections.abc import Callable

    from compilescope.record import Target

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Block(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image * 2


class Inherited(Block):
    pass


class Helper:
    def apply(self, image: Tensor) -> Tensor:
        return image.sin()


def whole(image: Tensor) -> Tensor:
    return part(image) + 1


def part(image: Tensor) -> Tensor:
    return image.cos()


def broken(image: Tensor) -> Tensor:
    image = image * 2
    torch._dynamo.graph_break()
    return image + 1


def judged(target: object, program: Callable[[], object]) -> Target:
    with compilescope.observe([target], count_runs=True) as scope:
        program()
    (found,) = scope.recording.targets
    return found


def run_block() -> None:
    torch.compile(Block(), backend="eager")(torch.ones(3))


def run_whole() -> None:
    torch.compile(whole, backend="eager")(torch.ones(3))


def run_helper() -> None:
    torch.compile(Helper().apply, backend="eager")(torch.ones(3))


@pytest.mark.parametrize(
    ("target", "program", "selector"),
    [
        (whole, run_whole, "whole"),
        (whole.__code__, run_whole, "whole"),
        ("whole", run_whole, "whole"),
        ("wh*", run_whole, "wh*"),
        ("*test_targets.py:whole", run_whole, "*test_targets.py:whole"),
        (Block, run_block, "Block.forward"),
        (Block(), run_block, "Block.forward"),
        (Block.forward, run_block, "Block.forward"),
        (Block().forward, run_block, "Block.forward"),
        ("Block.forward", run_block, "Block.forward"),
        ("*Block.*", run_block, "*Block.*"),
        (Helper, run_helper, "Helper"),
        (Helper.apply, run_helper, "Helper.apply"),
        (Helper().apply, run_helper, "Helper.apply"),
    ],
)
def test_target_is_found_however_it_is_named(target: object, program: Callable[[], object], selector: str) -> None:
    found = judged(target, program)
    assert (found.selector, found.status, found.compiles, found.resumed) == (selector, "compiled", 1, 0)


def test_compiled_callable_is_a_target_as_what_it_was_compiled_from() -> None:
    compiled = torch.compile(whole, backend="eager")
    found = judged(compiled, lambda: compiled(torch.ones(3)))
    assert (found.selector, found.status) == ("whole", "compiled")


def test_compiled_module_is_a_target_as_the_module_it_was_compiled_from() -> None:
    compiled = torch.compile(Block(), backend="eager")
    found = judged(compiled, lambda: compiled(torch.ones(3)))
    assert (found.selector, found.status) == ("Block.forward", "compiled")


def test_inherited_forward_counts_for_the_class_that_was_named() -> None:
    found = judged(Inherited, lambda: torch.compile(Inherited(), backend="eager")(torch.ones(3)))
    assert (found.selector, found.status) == ("Inherited.forward", "compiled")


def test_library_module_behind_a_shared_wrapper_counts_for_its_class_alone() -> None:
    def program() -> None:
        torch.compile(nn.ReLU(), backend="eager")(torch.ones(3))
        torch.compile(nn.Tanh(), backend="eager")(torch.ones(3))

    with compilescope.observe([nn.ReLU, nn.Tanh(), nn.GELU]) as scope:
        program()
    assert [(t.selector, t.status, t.compiles) for t in scope.recording.targets] == [
        ("ReLU.forward", "compiled", 1),
        ("Tanh.forward", "compiled", 1),
        ("GELU.forward", "never_reached", 0),
    ]


def test_resume_functions_are_counted_apart() -> None:
    found = judged(broken, lambda: torch.compile(broken, backend="eager")(torch.ones(3)))
    assert (found.status, found.compiles, found.resumed) == ("compiled", 1, 1)
    assert len(found.codes) == 2


def test_function_traced_into_another_is_inlined() -> None:
    found = judged(part, run_whole)
    assert (found.status, found.compiles) == ("inlined", 0)
    assert found.inlined_into is not None
    assert found.inlined_into.endswith("test_targets.py:whole")


def test_entry_made_before_is_served_from_the_cache() -> None:
    run_whole()
    found = judged(whole, run_whole)
    assert (found.status, found.compiles) == ("cached", 0)


def test_frame_that_dynamo_gave_up_is_skipped() -> None:
    def skipped(image: Tensor) -> Tensor:
        torch._dynamo.skip_frame()
        return image

    found = judged(skipped, lambda: torch.compile(skipped, backend="eager")(torch.ones(3)))
    assert (found.status, found.compiles) == ("skipped", 0)


def test_function_called_without_being_compiled_is_never_reached() -> None:
    assert judged(part, lambda: part(torch.ones(3))).status == "never_reached"


def test_pattern_that_fits_nothing_is_never_reached() -> None:
    assert judged("nobody.*", run_whole).status == "never_reached"


def test_target_counts_its_recompiles() -> None:
    def program() -> None:
        compiled = torch.compile(whole, backend="eager", dynamic=False)
        for size in (3, 4, 5):
            compiled(torch.ones(size))

    assert judged(whole, program).compiles == 3


@pytest.mark.parametrize("thing", [len, 3, int, object()], ids=["builtin", "number", "class without code", "object"])
def test_thing_without_python_code_is_refused_by_name(thing: object) -> None:
    with pytest.raises(compilescope.CompilescopeError, match="cannot be a target"), compilescope.observe([thing]):
        pass
