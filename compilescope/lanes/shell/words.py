"""Expands words of a shell script, as the shell would."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.lanes.shell.parts import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from compilescope.lanes.shell.parts import Part

_VALUE: Final = re.compile(r"\$\{?(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-=])(?P<default>[^$`'\"{}]*))?\}?")
_BRACES: Final = re.compile(r"\{[^{}]*,[^{}]*\}")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its value.

    Attributes:
        text: the value; unknown parts stay as written.
        unknown: the parts without a known value.
        pattern: the glob pattern, if the shell would glob it; None otherwise.
    """

    text: str
    unknown: tuple[str, ...] = ()
    pattern: str | None = None

    def files(self, folder: Path) -> Iterator[str]:
        """Yield its expansion in a folder: the files that match its pattern, or else itself."""
        if self.pattern is None:
            yield self.text
            return
        found = sorted(glob.glob(self.pattern, root_dir=folder))  # noqa: PTH207 (Path.glob takes no absolute pattern)
        yield from found or [self.text]


class _Builder:
    """Builds the words that one written word expands to."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self._text, self._pattern, self._bare = "", "", ""
        self._unknown: list[str] = []
        self._begun = False

    def add(self, text: str, *, quoted: bool) -> None:
        """Add text."""
        self._begun = self._begun or quoted or bool(text)
        self._text += text
        self._pattern += glob.escape(text) if quoted else text
        self._bare += " " * len(text) if quoted else text

    def add_unknown(self, text: str) -> None:
        """Add a part without a value."""
        self.add(text, quoted=True)
        self._unknown.append(text)

    def add_split(self, text: str) -> None:
        """Add the value of a variable outside of quotes, where spaces end words."""
        first, *others = _SPACES.split(text)
        self.add(first, quoted=False)
        for other in others:
            self.end()
            self.add(other, quoted=False)

    def end(self) -> None:
        """End a word."""
        if self._begun:
            unknown = (*self._unknown, *_BRACES.findall(self._bare))
            self.words.append(Word(self._text, unknown, self._pattern if glob.has_magic(self._bare) else None))
        self._text, self._pattern, self._bare = "", "", ""
        self._unknown, self._begun = [], False


def expand(word: Iterable[Part], variables: Mapping[str, str | None]) -> list[Word]:
    """Return the words that a written word expands to: none for an empty variable, one, or several.

    Args:
        word: its parts.
        variables: the values of variables; None if the value is not known.
    """
    built = _Builder()
    for part in word:
        if part.kind is Kind.TEXT:
            built.add(part.text, quoted=part.quoted)
        elif part.kind is Kind.UNKNOWN or (value := _value(part.text, variables)) is None:
            built.add_unknown(part.text)
        elif part.quoted:
            built.add(value, quoted=True)
        else:
            built.add_split(value)
    built.end()
    return built.words


def _value(text: str, variables: Mapping[str, str | None]) -> str | None:
    """Return the value of ``$NAME``, ``${NAME}`` or ``${NAME:-default}``; None if it is not known."""
    found = _VALUE.fullmatch(text)
    if found is None:
        return None
    name, how, default = found["name"], found["how"], found["default"]
    if name not in variables:
        return default
    value = variables[name]
    return default if value == "" and how and how.startswith(":") else value
