"""Says in the user's words what a resume function receives, and which graph break it continues after.

Dynamo passes the values on the stack at a break to the resume function as ``___stack0``, ``___stack1`` and so on.
An instruction of the broken function, whose place in the source is known, put each of them there.
"""

from __future__ import annotations

import dis
import linecache
from typing import TYPE_CHECKING, Final, NamedTuple

from compilescope.capture import _torch, _torch_resumes, places, value_stack
from compilescope.capture.describe import path, shorten
from compilescope.record import Location

if TYPE_CHECKING:
    from collections.abc import Sequence
    from traceback import FrameSummary
    from types import CodeType

    from compilescope.capture._torch_resumes import Resumed

_LONGEST: Final = 60
_LOADING: Final = ("LOAD_FAST", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_CONST", "LOAD_SMALL_INT")
# These never break: a resume function that begins after one continues where tracing can start again.
_HARMLESS: Final = ("LOAD_FAST", "LOAD_CONST", "STORE_FAST", "STORE_DEREF", "POP_", "NOP", "RESUME", "COPY", "SWAP")
_LEAVING: Final = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
_ENTERING: Final = ("BEFORE_WITH", "LOAD_SPECIAL")


def describe(code: CodeType, index: int) -> str | None:
    """Say what stack slot ``index`` of a resume function is: ``the result of `x.sum().item()` on line 9``.

    Returns:
        None if it is unknown: the function is not a resume function, Dynamo has dropped what it
        continues, or different paths through the user's function put different values there.
    """
    known = slots(code)
    return known[index] if 0 <= index < len(known) else None


def slots(code: CodeType) -> tuple[str | None, ...]:
    """Say what each stack slot of a resume function is. It reads the user's bytecode: call it once for many guards."""
    resumed = _torch_resumes.resumed(code)
    if resumed is None:
        return ()
    stack = value_stack.at(resumed.code, resumed.offset)
    if stack is None or len(stack) != resumed.depth + len(resumed.nulls):
        return (None,) * resumed.depth
    told = (instruction for place, instruction in enumerate(stack) if place not in resumed.nulls)
    return tuple(None if instruction is None else _words(resumed.code, instruction) for instruction in told)


def _words(code: CodeType, instruction: dis.Instruction) -> str | None:
    line = instruction.positions.lineno if instruction.positions is not None else None
    if line is None:
        return None
    name, text = instruction.opname, _source(code, instruction)
    if name.startswith("CALL"):
        return f"the result of `{text}` on line {line}" if text else f"the result of a call on line {line}"
    if text is None:
        return None
    if name in _ENTERING:
        return f"what `{text}` on line {line} entered"
    if name in ("GET_ITER", "FOR_ITER"):
        return f"the {'iterator' if name == 'GET_ITER' else 'next item'} of `{text}` on line {line}"
    if name.startswith(_LOADING):
        return f"`{text}`"
    return f"`{text}` on line {line}"


def _source(code: CodeType, instruction: dis.Instruction) -> str | None:
    """Return what the user wrote for an instruction, on one line."""
    where = instruction.positions
    if where is None or where.lineno is None or where.end_lineno is None:
        return None
    lines = [linecache.getline(code.co_filename, line) for line in range(where.lineno, where.end_lineno + 1)]
    if not all(lines) or where.col_offset is None or where.end_col_offset is None:
        return None
    # Columns are counted in bytes. For a ``with`` statement, which is one instruction, the first line is enough.
    encoded = [line.encode() for line in lines[: 1 if instruction.opname in _ENTERING else None]]
    before = encoded[0][: where.col_offset].rstrip()
    if len(encoded) == len(lines):
        encoded[-1] = encoded[-1][: where.end_col_offset]
    encoded[0] = encoded[0][where.col_offset :]
    text = shorten(b"".join(encoded).decode(errors="replace"), _LONGEST)
    # For a chain of calls over several lines, Python only records the last line.
    return f".{text}" if before.endswith(b".") else text or None


# --- the break ------------------------------------------------------------------------------------


class Resumption(NamedTuple):
    """What a resume function continues after.

    Attributes:
        after: where the broken function stopped. Its text is the code there, such as ``opt.step()``, and for a
            branch the line where execution continues.
        broken_at: the graph break, as in the recording; it may be in a callee.
    """

    after: Location
    broken_at: Location


def resumption(code: CodeType) -> Resumption | None:
    """Return what a resume function continues after; None for any other function."""
    original = _torch.resumed_code(code)
    if original is None:
        return None
    resumed = _torch_resumes.resumed(code)
    told, text = (None, None) if resumed is None else _stop(resumed)
    # Dynamo's own line is wrong if the broken function was itself a resume function with wrong lines.
    line = told or code.co_firstlineno
    after = Location(file=path(original.co_filename), line=line, text=text, function=original.co_name)
    return Resumption(after, _deeper(original, code.co_firstlineno) or _whole(original, line))


def resumed_break(code: CodeType) -> Location | None:
    """Return the line of the graph break that a resume function continues after; None for another function.

    The break may be in a callee of the broken function: Dynamo's note of it says where.
    """
    found = resumption(code)
    return None if found is None else found.broken_at


def _deeper(original: CodeType, line: int) -> Location | None:
    """Return the line of a break in a function that was called on a line; None if it is that same line, or unknown."""
    noted = {
        user
        for stack in _torch_resumes.breaks_noted()
        if (stack[0].filename, stack[0].lineno) == (original.co_filename, line)
        if (user := _user(stack)) is not None
    }
    return noted.pop() if len(noted) == 1 else None


def _user(stack: Sequence[FrameSummary]) -> Location | None:
    frames = places.choose(stack)
    return None if frames.user is stack[0] else frames.describe().user


def _whole(code: CodeType, line: int) -> Location:
    text = linecache.getline(code.co_filename, line).strip() or None
    return Location(file=path(code.co_filename), line=line, text=text, function=code.co_name)


def _stop(resumed: Resumed) -> tuple[int | None, str | None]:
    """Return the line on which a function stopped, and the code there; None for what cannot be known."""
    before, following = _around(resumed)
    if before is None or following is None or before.positions is None or following.positions is None:
        return None, None
    if _jumps(before) or before.opname in _LEAVING:
        return None, f"the branch to line {following.positions.lineno}"
    if following.is_jump_target or before.opname.startswith(_HARMLESS):
        return None, None
    return before.positions.lineno, _source(resumed.code, before)


def _jumps(instruction: dis.Instruction) -> bool:
    return instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs


def _around(resumed: Resumed) -> tuple[dis.Instruction | None, dis.Instruction | None]:
    """Return the instruction before the one that comes next, and that one."""
    before = None
    for instruction in dis.get_instructions(resumed.code):
        if instruction.offset == resumed.offset:
            return before, instruction
        before = instruction
    return None, None
