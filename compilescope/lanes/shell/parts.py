"""The shell's syntax: parts of words, and commands of words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kind of a part of a word.

    Attributes:
        TEXT: literal text.
        VALUE: the value of a variable.
        UNKNOWN: something that only running the shell would show.
    """

    TEXT = "text"
    VALUE = "value"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word.

    Attributes:
        text: as it is written, without its quotes.
        kind: its kind.
        quoted: whether it is in quotes, so that the shell neither splits nor globs it.
    """

    text: str
    kind: Kind = Kind.TEXT
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command.

    Attributes:
        words: each in its parts.
        here: the here-document on its standard input.
    """

    words: tuple[tuple[Part, ...], ...]
    here: str = ""


class Group(Enum):
    """The start and end of a subshell, after which folder and variables are restored.

    Attributes:
        OPEN: it begins.
        CLOSE: it ends.
    """

    OPEN = "("
    CLOSE = ")"
