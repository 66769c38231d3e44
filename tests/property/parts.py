"""What a generated program is put together from: parts of a world, each with one reading and one change of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Holder = Literal["argument", "item", "object", "module", "global", "closure"]
Root = Literal["function", "factory", "module"]
Texts = frozenset[str] | None
"""The texts that are right for a value; None where the value has no text that a user would write."""

_PRIMES: Final = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a part is made on.

    Attributes:
        name: of the part; no other part of the program has it.
        dynamic: as ``torch.compile`` is told.
        root: whether the compiled callable is a plain function, a function made by a factory, or a module.
        index: of the part in its program. Numbers that change are primes of this index alone: no size and no int of
            another part is equal to them, so that no symbol is shared by chance.
    """

    name: str
    dynamic: bool | None
    root: Root
    index: int

    @property
    def old(self) -> int:
        """A number of this part alone."""
        return _PRIMES[3 * self.index]

    @property
    def new(self) -> int:
        """Another one."""
        return _PRIMES[3 * self.index + 1]

    @property
    def other(self) -> int:
        """A third one."""
        return _PRIMES[3 * self.index + 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the world, by what a report has to say of it.

    Attributes:
        kinds: those that are right.
        sources: the places at which it may be told; where it stands at many, any of them.
        expected, actual: what was there, and what is there now.
        names: the keys or members that came or went, one of which is named at the least.
        came: whether the named ones came (True) or went (False); None where some came and some went.
        shape: whether nothing but a shape changes.
    """

    kinds: frozenset[str]
    sources: frozenset[str]
    expected: Texts = None
    actual: Texts = None
    names: tuple[str, ...] = ()
    came: bool | None = None
    shape: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """A value that a program reads, and what becomes of it. Where it stands is not told here.

    Attributes:
        sort: of thing and change, for the statistics.
        before, after: expressions that make it.
        reading: statements that read ``{v}`` and append to ``outs``.
        kinds: those that are right for the change, by what holds the value.
        suffixes: what may be put behind the value's own source.
        elsewhere: other sources that are right wherever it stands.
        definitions: what ``before`` and ``after`` speak of, for the head of the module.
        avoids: what the program may not bring around the call.
    """

    sort: str
    before: str
    after: str
    reading: str
    kinds: Callable[[Holder], frozenset[str]]
    suffixes: tuple[str, ...] = ("",)
    elsewhere: tuple[str, ...] = ()
    expected: Texts = None
    actual: Texts = None
    names: tuple[str, ...] = ()
    came: bool | None = None
    shape: bool = False
    definitions: str = ""
    avoids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A thing at its place: what it adds to the text of the program.

    Attributes:
        making: statements that make the world's value, changed or not.
        parameter, argument: of the compiled callable, and what is passed for it.
        cell: a variable that the factory captures.
        context: an expression for a context manager around the call.
        reading: statements of the compiled body.
        told: the change in a few words, for people.
        brings: what it puts around the call, by name.
        avoids: what no other part of the program may bring.
    """

    name: str
    sort: str
    change: Change
    told: str
    making: str = ""
    parameter: str | None = None
    argument: str | None = None
    cell: str | None = None
    context: str | None = None
    reading: str = ""
    definitions: str = ""
    brings: frozenset[str] = frozenset()
    avoids: frozenset[str] = frozenset()


def same(*kinds: str) -> Callable[[Holder], frozenset[str]]:
    """Return the kinds of a change that is told alike wherever it stands, but for globals and captured variables."""

    def by_holder(holder: Holder) -> frozenset[str]:
        told = frozenset(kinds)
        return told | {holder} if holder in ("global", "closure") else told

    return by_holder


def texts(*allowed: object) -> frozenset[str]:
    """Return what may be written for a value."""
    return frozenset(str(text) for text in allowed)


NONE: Final = texts("None", "NoneType")
"""What may be written for None."""


def choice(before: str, after: str, name: str) -> str:
    """Write an expression for a value that is the one or the other."""
    return before if before == after else f'{after} if "{name}" in changed else {before}'
