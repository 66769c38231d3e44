"""Each value on a function's stack is laid to the instruction that put it there."""

from __future__ import annotations

import dis
import inspect
import sys
import types
from typing import TYPE_CHECKING

import pytest

from compilescope.capture import value_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType


def marked(*values: object) -> object:
    return values


def plain(a: int, b: int) -> object:
    return [a, b + 1, marked(b)]


def either(a: int) -> object:
    return [a - 1 if a else a + 1, marked()]


def looped(a: list[int]) -> object:
    total = 0
    for one in a:
        total += one
        marked(one)
    return total


def before_call_of_marked(function: Callable[..., object]) -> list[str | None]:
    """Return the opcodes behind the stack at the last call's result."""
    code = function.__code__
    instructions = list(dis.get_instructions(code))
    last = max(at for at, one in enumerate(instructions) if one.opname.startswith("CALL"))
    stack = value_stack.at(code, instructions[last + 1].offset)
    assert stack is not None
    return [None if one is None else one.opname.partition("_")[0] for one in stack]


@pytest.mark.parametrize(
    ("function", "stack"),
    [
        (plain, ["LOAD", "BINARY", "CALL"]),
        # Python 3.12 writes the end once for each branch, so that it is known which one filled the slot.
        (either, [None if sys.version_info < (3, 12) else "BINARY", "CALL"]),
        (looped, ["GET", "CALL"]),
    ],
)
def test_every_value_is_laid_to_its_instruction(function: Callable[..., object], stack: list[str | None]) -> None:
    assert before_call_of_marked(function) == stack


def codes(module: types.ModuleType) -> Iterator[CodeType]:
    """Yield the code of every function that a module defines, and of those inside them."""
    pending = [thing.__code__ for thing in vars(module).values() if inspect.isfunction(thing)]
    for thing in vars(module).values():
        if inspect.isclass(thing):
            pending += [one.__code__ for one in vars(thing).values() if inspect.isfunction(one)]
    while pending:
        code = pending.pop()
        yield code
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


@pytest.mark.parametrize("module", [inspect, dis, types, pytest], ids=lambda module: module.__name__)
def test_the_stack_is_never_deeper_than_python_says(module: types.ModuleType) -> None:
    looked_at = 0
    for code in codes(module):
        for instruction in dis.get_instructions(code):
            stack = value_stack.at(code, instruction.offset) if instruction.opname.startswith("RETURN") else None
            if stack is not None:
                looked_at += 1
                assert len(stack) <= code.co_stacksize
                assert instruction.opname != "RETURN_VALUE" or stack
    assert looked_at or module is pytest


def test_an_offset_that_is_no_instruction_has_no_stack() -> None:
    assert value_stack.at(plain.__code__, 10_001) is None
