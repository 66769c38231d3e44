"""What a resume function was given is told as the user wrote it, and so is where it goes on."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

import compilescope
from compilescope.capture import guard_places, resume_lines, stack_slots

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from compilescope.record import CodeObject, Recording

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def _off(image: Tensor) -> Tensor:
    return image + 1


off: Callable[[Tensor], Tensor] = torch.compiler.disable(_off)  # type: ignore[no-untyped-call]


def resumed_codes(function: Callable[..., object], *args: object) -> list[CodeType]:
    """Compile, and return the resume functions that came of it, in the order of their birth."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    torch.compile(function, backend="eager")(*args)
    return list(ContinueExecutionCache.cache[function.__code__].values())


def line_of(function: Callable[..., object], marked: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, text in enumerate(lines) if text.rstrip().endswith(f"# {marked}"))


def item(image: Tensor) -> Tensor:
    return image.sin() * image.sum().item()  # here


def test_a_slot_is_the_result_of_what_the_user_called() -> None:
    (code,) = resumed_codes(item, torch.ones(3))
    line = line_of(item, "here")
    assert stack_slots.slots(code) == (
        f"the result of `image.sin()` on line {line}",
        f"the result of `image.sum().item()` on line {line}",
    )
    assert stack_slots.describe(code, 1) == f"the result of `image.sum().item()` on line {line}"


@pytest.mark.parametrize("index", [-1, 2, 99])
def test_a_slot_that_is_not_there_is_not_described(index: int) -> None:
    (code,) = resumed_codes(item, torch.ones(3))
    assert stack_slots.describe(code, index) is None


def test_another_function_has_no_slots_and_continues_nothing() -> None:
    assert stack_slots.describe(item.__code__, 0) is None
    assert stack_slots.slots(item.__code__) == ()
    assert stack_slots.resumption(item.__code__) is None
    assert stack_slots.resumed_break(item.__code__) is None


def inside(image: Tensor) -> list[Tensor]:
    with torch.no_grad():
        return [image, image.cos(), off(image)]  # here


def test_slots_tell_variables_and_what_a_with_statement_entered() -> None:
    code = resumed_codes(inside, torch.ones(3))[0]
    first, second, *_ = stack_slots.slots(code)
    assert first == f"what `with torch.no_grad():` on line {line_of(inside, 'here') - 1} entered"
    assert second == "`image`"


def chosen(image: Tensor, flag: bool) -> list[Tensor]:  # noqa: FBT001 (branched on)
    return [image.sin() if flag else image.cos(), off(image)]


def test_a_slot_that_two_ways_fill_is_not_described() -> None:
    code = resumed_codes(chosen, torch.ones(3), True)[0]  # noqa: FBT003 (branched on)
    first, second = stack_slots.slots(code)
    assert first is None
    assert second is not None


def test_a_slot_of_a_forgotten_resume_function_is_not_described() -> None:
    (code,) = resumed_codes(item, torch.ones(3))
    torch.compiler.reset()
    assert stack_slots.describe(code, 0) is None


# --- where it goes on -----------------------------------------------------------------------------


def observed(function: Callable[..., object], *args: object) -> Recording:
    with compilescope.observe() as scope:
        torch.compile(function, backend="eager")(*args)
    return scope.recording


def resume_functions(recording: Recording) -> list[CodeObject]:
    return [code for code in recording.code_objects if code.resumes is not None]


def twice(image: Tensor) -> Tensor:
    return off(image.sin()) + off(image.cos()) + image.sum()  # here


def test_two_resume_functions_of_one_line_tell_what_they_go_on_after() -> None:
    found = [code.resumed_after for code in resume_functions(observed(twice, torch.ones(3)))]
    assert [(where.line, where.text) for where in found if where] == [
        (line_of(twice, "here"), "off(image.sin())"),
        (line_of(twice, "here"), "off(image.cos())"),
    ]


def deeper(image: Tensor) -> Tensor:
    image = image.sin()
    torch._dynamo.graph_break()  # break
    return image


def calls(image: Tensor) -> Tensor:
    return deeper(image) + image.sum()  # call


def test_a_resume_function_knows_the_break_that_lies_deeper() -> None:
    recording = observed(calls, torch.ones(3))
    code = next(one for one in resume_functions(recording) if "calls" in one.qualname)
    assert code.resumed_after is not None
    assert code.broken_at is not None
    assert (code.resumed_after.line, code.resumed_after.text) == (line_of(calls, "call"), "deeper(image)")
    assert code.broken_at.line == line_of(deeper, "break")
    assert code.broken_at.line in {site.line for site in recording.graph_breaks}


def branch(image: Tensor) -> Tensor:
    if image.sum() > 0:  # if
        return image + 1  # then
    return image - 1


def test_a_resume_function_after_a_branch_tells_which_way_was_taken() -> None:
    (code,) = resume_functions(observed(branch, torch.ones(3)))
    assert code.resumed_after is not None
    assert code.resumed_after.line == line_of(branch, "if")
    assert code.resumed_after.text == f"the branch to line {line_of(branch, 'then')}"


# --- Dynamo's table of lines ----------------------------------------------------------------------


def chained(image: Tensor) -> Tensor:
    image = off(image)  # first
    image = (
        image
        .sin()
        .cos()
        .sum(dim=0, keepdim=True)
    )  # fmt: skip
    image = image * 2  # guarded
    return off(image) + 1  # second


def test_breaks_below_a_long_call_in_a_resume_function_are_at_their_own_lines() -> None:
    sites = [site.line for site in observed(chained, torch.ones(3)).graph_breaks]
    assert sites == [line_of(chained, "first"), line_of(chained, "second")]


def test_resume_functions_below_a_long_call_are_named_by_their_own_lines() -> None:
    found = resume_functions(observed(chained, torch.ones(3)))
    assert [code.line for code in found] == [line_of(chained, "first"), line_of(chained, "second")]


def scaled(image: Tensor, scale: list[int]) -> Tensor:
    image = off(image)
    image = (
        image
        .sin()
        .cos()
        .sum(dim=0, keepdim=True)
    )  # fmt: skip
    return image * scale[0]  # guarded


def test_guards_below_a_long_call_in_a_resume_function_are_at_their_own_lines() -> None:
    from compilescope.capture import _torch

    with compilescope.observe():
        (code,) = resumed_codes(scaled, torch.ones(3), [3])
    (entry,) = _torch.entries_of(code)
    user = guard_places.of(entry.manager).guard("L['scale'][0]", "EQUALS_MATCH").user
    assert user is not None
    assert user.line == line_of(scaled, "guarded")


def test_functions_whose_lines_are_right_are_left_alone() -> None:
    (code,) = resumed_codes(item, torch.ones(3))
    assert resume_lines.of(code) is None
    assert resume_lines.of(item.__code__) is None
