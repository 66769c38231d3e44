"""Corrects the lines that Dynamo reports for resume functions.

A resume function holds the instructions of the function that was broken, and a table of their lines that Dynamo
writes. It counts a step between two lines twice if the instruction there is longer than eight code units (such as a
method lookup on its own line), and every line below is off by that. The broken function has the correct lines, and
both end in the same instructions.
"""

from __future__ import annotations

import dis
from dataclasses import dataclass
from traceback import FrameSummary
from typing import TYPE_CHECKING

from compilescope.capture import _torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType


@dataclass(frozen=True, slots=True)
class ResumeLines:
    """The correct lines of one resume function.

    Attributes:
        names, filename: the names in the frames of the function: its own, or that of the broken function.
        exact: by Dynamo's line and the column.
        near: by Dynamo's line alone, if only one line is possible.
    """

    names: frozenset[str]
    filename: str
    exact: dict[tuple[int, int | None], int]
    near: dict[int, int]

    def correct(self, frame: FrameSummary) -> FrameSummary:
        """Return a frame of this function with its correct line; any other frame as it is."""
        told = frame.lineno
        if told is None or frame.name not in self.names or frame.filename != self.filename:
            return frame
        right = self.exact.get((told, frame.colno), self.near.get(told, told))
        return frame if right == told else FrameSummary(frame.filename, right, frame.name, lookup_line=False)

    def correct_root(self, stack: Sequence[FrameSummary]) -> list[FrameSummary]:
        """Return a stack whose outermost frame, that of the function that is traced, has its correct line."""
        return [self.correct(frame) if index == 0 else frame for index, frame in enumerate(stack)]


def of(code: CodeType) -> ResumeLines | None:
    """Return the correct lines of a resume function; None for any other function, or if Dynamo's are correct."""
    original = _torch.resumed_code(code)
    if original is None:
        return None
    exact: dict[tuple[int, int | None], int] = {}
    by_line: dict[int, set[int]] = {}
    for told, column, right in _pairs(code, original):
        exact.setdefault((told, column), right)
        by_line.setdefault(told, set()).add(right)
    if all(told == right for (told, _), right in exact.items()):
        return None
    near = {told: found.pop() for told, found in by_line.items() if len(found) == 1}
    return ResumeLines(frozenset({code.co_name, original.co_name}), original.co_filename, exact, near)


def _pairs(code: CodeType, original: CodeType) -> Iterator[tuple[int, int | None, int]]:
    """Yield Dynamo's line for an instruction, its column, and its correct line."""
    for (told, instruction), (right, theirs) in zip(
        reversed(list(_lines(code))), reversed(list(_lines(original))), strict=False
    ):
        column = _column(theirs)
        # Code before the break has no place here, since it never runs here.
        if instruction.opcode != theirs.opcode or _column(instruction) != column:
            return
        if told is not None and right is not None:
            yield told, column, right


def _column(instruction: dis.Instruction) -> int | None:
    return None if instruction.positions is None else instruction.positions.col_offset


def _lines(code: CodeType) -> Iterator[tuple[int | None, dis.Instruction]]:
    """Yield every instruction with the line that Dynamo takes it to stand on: the newest that began before it."""
    line = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "EXTENDED_ARG":
            continue
        line = _begins(instruction) or line
        yield line, instruction


def _begins(instruction: dis.Instruction) -> int | None:
    """Return the line that begins with an instruction; Python 3.13 has two attributes instead of one."""
    begins = instruction.starts_line
    if begins is True:
        return instruction.line_number  # type: ignore[attr-defined,no-any-return]
    return begins or None
