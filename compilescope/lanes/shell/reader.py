"""Splits a shell script into words and operators."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.errors import UsageError
from compilescope.lanes.shell.parts import Kind, Part

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATOR: Final = re.compile(r"&>>|<<<|<<-|&&|\|\||;;|\|&|&>|<<|>>|>&|<&|>\||<>|[;&|()\n<>]")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_NESTED: Final = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|[()]""", re.DOTALL)
"""What matters in a command inside a word: brackets, and what hides them."""
_HERE: Final = ("<<", "<<-")
_ENDS: Final = frozenset(" \t\n;&|()<>")
_ESCAPED: Final = frozenset('$`"\\')
"""What a backslash escapes in double quotes."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the shell, a new line among them."""

    text: str


@dataclass(frozen=True, slots=True)
class Here:
    """The text of a here-document."""

    text: str


Token = Operator | Here | tuple[Part, ...]


class Reader:
    """Reads one script.

    Args:
        script: its text.
    """

    def __init__(self, script: str) -> None:
        self._text, self._at = script.replace("\r\n", "\n"), 0

    def tokens(self) -> Iterator[Token]:
        """Yield the words and operators.

        Raises:
            UsageError: a quote or bracket is not closed.
        """
        delimiters: list[str] = []
        before: Token = Operator("\n")
        while self._skip_blanks():
            found = _OPERATOR.match(self._text, self._at)
            if found is None or self._text.startswith(("<(", ">("), self._at):
                token: Token = (word := self._word())
                if isinstance(before, Operator) and before.text in _HERE:
                    delimiters.append("".join(part.text for part in word))
            else:
                self._at = found.end()
                token = Operator(found[0])
                if found[0] == "\n":
                    yield from (Here(self._here(delimiter)) for delimiter in delimiters)
                    delimiters.clear()
            yield token
            before = token

    def _skip_blanks(self) -> bool:
        """Skip to the next word or operator; return whether there is one."""
        while self._at < len(self._text):
            if self._text.startswith("\\\n", self._at):
                self._at += 2
            elif self._text[self._at] in " \t":
                self._at += 1
            elif self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return True
        return False

    def _word(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter in _ENDS and not (not parts and self._text.startswith(("<(", ">("), self._at)):
                break
            if letter == "'":
                parts.append(Part(self._until("'", start=1), quoted=True))
            elif letter == '"':
                parts.extend(self._double())
            elif letter == "\\":
                if (following := self._text[self._at + 1 : self._at + 2]) != "\n":
                    parts.append(Part(following, quoted=True))
                self._at += 2
            elif letter in "<>":
                parts.append(Part(letter + self._bracketed(1), Kind.UNKNOWN))
            else:
                parts.append(self._reference(quoted=False) or self._letter())
        return tuple(parts)

    def _double(self) -> Iterator[Part]:
        self._at += 1
        yield Part("", quoted=True)
        while (letter := self._text[self._at : self._at + 1]) != '"':
            if not letter:
                msg = 'a " is not closed'
                raise UsageError(msg)
            if letter == "\\" and (following := self._text[self._at + 1 : self._at + 2]) in _ESCAPED | {"\n"}:
                self._at += 2
                yield Part(following.strip("\n"), quoted=True)
            else:
                yield self._reference(quoted=True) or self._letter(quoted=True)
        self._at += 1

    def _letter(self, *, quoted: bool = False) -> Part:
        self._at += 1
        return Part(self._text[self._at - 1], quoted=quoted)

    def _reference(self, *, quoted: bool) -> Part | None:
        """Read an expansion of the shell; None if there is none here."""
        rest = self._text[self._at : self._at + 3]
        if rest.startswith("`"):
            return Part(f"`{self._until('`', start=1)}`", Kind.UNKNOWN, quoted)
        if not rest.startswith("$"):
            return None
        if rest == "${{":
            return Part(self._until("}}", start=0) + "}}", Kind.UNKNOWN, quoted)
        if rest.startswith("${"):
            return Part(self._until("}", start=0) + "}", Kind.VALUE, quoted)
        if rest.startswith("$'") and not quoted:
            written = self._until("'", start=2)
            return Part(written, Kind.UNKNOWN if "\\" in written else Kind.TEXT, quoted=True)
        if rest.startswith("$("):
            return Part("$" + self._bracketed(1), Kind.UNKNOWN, quoted)
        if name := _NAME.match(self._text, self._at + 1):
            self._at = name.end()
            return Part(f"${name[0]}", Kind.VALUE, quoted)
        if rest[1:2] and rest[1] in "@*#?$!-0123456789":
            self._at += 2
            return Part(rest[:2], Kind.UNKNOWN, quoted)
        return None

    def _until(self, end: str, *, start: int) -> str:
        """Read past ``end``; return the text before it."""
        begin = self._at + start
        found = self._text.find(end, begin)
        if found < 0:
            msg = f"a {self._text[self._at]} is not closed"
            raise UsageError(msg)
        self._at = found + len(end)
        return self._text[begin:found]

    def _bracketed(self, start: int) -> str:
        """Read from an opening bracket to the closing one; ignore brackets in quotes."""
        begin, depth = self._at + start, 0
        for found in _NESTED.finditer(self._text, begin):
            depth += {"(": 1, ")": -1}.get(found[0], 0)
            if depth == 0:
                self._at = found.end()
                return self._text[begin : self._at]
        msg = "a ( is not closed"
        raise UsageError(msg)

    def _here(self, delimiter: str) -> str:
        """Read the lines of a here-document."""
        lines: list[str] = []
        while self._at < len(self._text):
            line, _, _ = self._text[self._at :].partition("\n")
            self._at += len(line) + 1
            if line.strip() == delimiter:
                break
            lines.append(line)
        return "\n".join(lines)
