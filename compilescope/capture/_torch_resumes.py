"""The private parts of torch that say what a resume function continues.

It belongs to :mod:`compilescope.capture._torch`, which is full. Tried on torch 2.13, 2.14 and 2.15.
"""

from __future__ import annotations

import dis
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch._dynamo import utils
from torch._dynamo.resume_execution import ContinueExecutionCache

from compilescope.capture import _torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from traceback import FrameSummary
    from types import CodeType


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a resume function continues.

    Attributes:
        code: the function that was broken.
        offset: its next instruction.
        nulls: the places on its stack that hold no value of the user's, counted from the bottom.
        depth: how many values of the user's were on its stack.
    """

    code: CodeType
    offset: int
    nulls: tuple[int, ...]
    depth: int


def resumed(code: CodeType) -> Resumed | None:
    """Return what a resume function continues; None for any other function, or if Dynamo has dropped it."""
    original = _torch.resumed_code(code)
    if original is None:
        return None
    known: dict[tuple[Any, ...], CodeType] = ContinueExecutionCache.cache.get(original) or {}
    key = next((key for key, made in known.items() if made is code), None)
    if key is None:
        return None
    # The key is what was passed to ``generate`` after the code, the line and the offset of the break.
    names = list(inspect.signature(ContinueExecutionCache.generate).parameters)
    passed = dict(zip(names[-len(key) :], key, strict=True))
    offset = _offset_in(original, ContinueExecutionCache.generated_code_metadata[code].instructions, passed)
    return None if offset is None else Resumed(original, offset, tuple(passed["null_idxes"]), passed["nstack"])


def _offset_in(code: CodeType, instructions: Sequence[Any], passed: dict[str, Any]) -> int | None:
    """Return where in ``code`` the next instruction is.

    Dynamo counts offsets in a list that it has rewritten: ``EXTENDED_ARG`` is left out, and calls of ``super()`` are
    written out. The same instruction has the same place in both, counted from the end or from the beginning.
    """
    index = next((at for at, one in enumerate(instructions) if one.offset == passed["resume_offset"]), None)
    if index is None:
        return None
    own = [instruction for instruction in dis.get_instructions(code) if instruction.opname != "EXTENDED_ARG"]
    target = instructions[index]
    for at in (len(own) - len(instructions) + index, index):
        if 0 <= at < len(own) and (own[at].opname, own[at].positions) == (target.opname, target.positions):
            return own[at].offset
    return None


def breaks_noted() -> Iterator[Sequence[FrameSummary]]:
    """Yield the user stacks (outermost first) of the graph breaks that Dynamo has noted, newest first."""
    for reason in reversed(utils.graph_break_reasons):
        if reason.graph_break and reason.user_stack:
            yield reason.user_stack
