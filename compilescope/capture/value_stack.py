"""Reads bytecode: which instruction put each value on a function's stack, at one of its instructions.

Python's compiler gives each instruction one stack depth, whichever path leads there, so the stack can be followed
without running anything. If two paths lead to one place, a value that different instructions put there is unknown.
Values on the stack of an exception's handler are not followed.
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    Stack = tuple[dis.Instruction | None, ...]

# Instructions that take more than they give, or as much, and still leave a new value on top. Others leave none.
_GIVING: Final = (
    "BINARY_",
    "BUILD_",
    "CALL",
    "COMPARE_",
    "CONTAINS_",
    "CONVERT_",
    "FORMAT_",
    "GET_",
    "IMPORT_",
    "IS_",
    "LIST_TO_TUPLE",
    "LOAD_",
    "MAKE_",
    "MATCH_",
    "SET_FUNCTION_",
    "TO_BOOL",
    "UNARY_",
)
# Instructions that take one value and leave several in its place.
_SPREADING: Final = frozenset(
    {"BEFORE_WITH", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SPECIAL", "UNPACK_EX", "UNPACK_SEQUENCE"}
)
_SUPER_TAKES: Final = 3
_LEAVING: Final = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})


def at(code: CodeType, offset: int) -> Stack | None:
    """Return the instruction that produced each value on the stack before the instruction at ``offset``, bottom first.

    None stands for an unknown value; the result is None if only an exception leads there.
    """
    instructions = list(dis.get_instructions(code))
    index_at = {instruction.offset: index for index, instruction in enumerate(instructions)}
    stacks: dict[int, Stack] = {0: ()}
    pending = [0]
    while pending:
        index = pending.pop()
        for following, stack in _following(instructions, index_at, index, stacks[index]):
            known = stacks.get(following)
            merged = stack if known is None else _merge(known, stack)
            if merged != known:
                stacks[following] = merged
                pending.append(following)
    return stacks.get(index_at.get(offset, -1))


def _following(
    instructions: list[dis.Instruction], index_at: dict[int, int], index: int, stack: Stack
) -> Iterator[tuple[int, Stack]]:
    """Yield the instructions that may come next, each with its stack."""
    instruction = instructions[index]
    name = instruction.opname
    if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
        yield index_at[instruction.argval], _after(instruction, stack, jump=True)
    is_last = index + 1 == len(instructions)
    if name not in _LEAVING and not name.startswith(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE")) and not is_last:
        yield index + 1, _after(instruction, stack, jump=False)


def _after(instruction: dis.Instruction, stack: Stack, *, jump: bool) -> Stack:
    """Return the stack after an instruction."""
    name, argument = instruction.opname, instruction.arg
    if name == "SWAP" and argument is not None and argument <= len(stack):
        changed = list(stack)
        changed[-1], changed[-argument] = changed[-argument], changed[-1]
        return tuple(changed)
    if name == "COPY" and argument is not None and argument <= len(stack):
        return (*stack, stack[-argument])
    effect = dis.stack_effect(
        instruction.opcode, argument if instruction.opcode >= dis.HAVE_ARGUMENT else None, jump=jump
    )
    given = _given(name, effect)
    kept = len(stack) + effect - given
    return (*stack[: max(kept, 0)], *[instruction] * given)


def _given(name: str, effect: int) -> int:
    """Return how many values on top of the stack an instruction pushed itself."""
    if name == "LOAD_SUPER_ATTR":
        return effect + _SUPER_TAKES
    if name in _SPREADING:
        return effect + 1
    if effect > 0:
        return effect
    return 1 if name.startswith(_GIVING) else 0


def _merge(one: Stack, other: Stack) -> Stack:
    return tuple(a if a is b else None for a, b in zip(one, other, strict=False))
