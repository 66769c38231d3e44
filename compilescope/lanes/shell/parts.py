"""What the shell's language is made of: parts of words, and commands of words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a part of a word is.

    Attributes:
        TEXT: it stands for itself.
        VALUE: the value of a variable.
        UNKNOWN: something that only a run of the shell would tell.
    """

    TEXT = "text"
    VALUE = "value"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word.

    Attributes:
        text: as it is written, without its quotes.
        kind: what it is.
        quoted: whether it stands in quotes, so that the shell neither splits it nor looks for files of its pattern.
    """

    text: str
    kind: Kind = Kind.TEXT
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command.

    Attributes:
        words: each in its parts.
        here: what a here-document hands it on its standard input.
    """

    words: tuple[tuple[Part, ...], ...]
    here: str = ""


class Group(Enum):
    """The ends of a subshell, after which folder and variables are those from before.

    Attributes:
        OPEN: it begins.
        CLOSE: it ends.
    """

    OPEN = "("
    CLOSE = ")"
