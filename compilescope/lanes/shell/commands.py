"""Combines the words of a shell script into simple commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.lanes.shell.parts import Command, Group, Kind
from compilescope.lanes.shell.reader import Here, Operator, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.lanes.shell.parts import Part

_REDIRECTS: Final = frozenset({"<", ">", ">>", ">&", "<&", ">|", "<>", "&>", "&>>", "<<", "<<-", "<<<"})
_GROUPS: Final = {"(": Group.OPEN, ")": Group.CLOSE}


def commands(script: str) -> Iterator[Command | Group]:
    """Yield the simple commands in their order, and where subshells begin and end.

    Loops, conditions and functions are not followed: each command in them comes once, with the keyword before it
    (``then pytest``).

    Args:
        script: the text of a shell script.

    Raises:
        UsageError: a quote or bracket is not closed.
    """
    words: list[tuple[Part, ...]] = []
    here, is_target = "", False
    for token in Reader(script).tokens():
        if isinstance(token, Here):
            here = token.text
        elif not isinstance(token, Operator):
            if not is_target:
                words.append(token)
            is_target = False
        elif token.text in _REDIRECTS:
            # In `2>&1` the 2 is not a word of the command.
            if words and _is_number(words[-1]):
                words.pop()
            is_target = True
        else:
            if words:
                yield Command(tuple(words), here)
            words, here, is_target = [], "", False
            if token.text in _GROUPS:
                yield _GROUPS[token.text]
    if words:
        yield Command(tuple(words), here)


def _is_number(word: tuple[Part, ...]) -> bool:
    return all(part.kind is Kind.TEXT and not part.quoted and part.text.isdecimal() for part in word)
