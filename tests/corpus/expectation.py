"""What a program of the corpus is expected to do under Dynamo."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType

AnyChange = TypeVar("AnyChange", bound="Change")
Text = str | tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that changed in the world, as a cause of a recompile is to report it. What is None is not looked at.

    Attributes:
        source: None where its words are the report's to choose.
        expected, actual: both sides; a tuple where a recompile stands for several, one text for each of them.
        names: what the two sides together speak of, where their wording is the report's to choose.
        line: the mark of the user's line.
        places: at how many guards it is seen.
        also: the other sources that it is seen at; which of all of them stands first does not matter.
    """

    kind: str
    source: str | None
    expected: Text = None
    actual: Text = None
    names: tuple[str, ...] = ()
    line: str | None = None
    places: int | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cause(Change):
    """A recompile of ``code``, ``count`` times in a row, and its only cause, unless others stand ``beside`` it."""

    code: str
    shape_driven: bool | None
    count: int = 1
    beside: tuple[Change, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """All causes of the recompile: whatever else is reported is wrong."""
        return (self, *self.beside)


@dataclass(frozen=True)
class Break:
    """A graph break at the line that carries the comment ``# here: <mark>``."""

    mark: str
    kind: str
    events: int = 1


@dataclass(frozen=True)
class Error:
    """A compilation that ended in an error which names this source, at that mark."""

    kind: str
    source: str | None = None
    mark: str | None = None


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What one program does.

    Attributes:
        compiles: cache entries made, by qualified name; ``{mark}`` in a name stands for that mark's line.
        recompiles: their causes, in the order of the compilations.
        at_limit: what would have made a recompile, had the recompile limit not been met.
        refused: what would have made a recompile, had it not been forbidden; None where that is not looked at.
        raised: compilations that ended in an error which the caller saw.
        breaks: break sites, in the order of their first event.
        fallbacks: calls that ran eager, by kind of fallback; a number of None stands for any.
        targets: what became of each selector, which the program is observed with.
        errors: of the compilations that failed.
        matches_eager: what the program returns, which then says whether the compiled result is right.
        guards_at_least: guards that the only entry holds, at the least.
        open: whether frames and breaks of a library, which differ between versions of it, may come along.
    """

    compiles: Mapping[str, int] = field(default_factory=dict)
    recompiles: tuple[Cause, ...] = ()
    at_limit: tuple[Cause, ...] = ()
    refused: tuple[Cause, ...] | None = ()
    raised: int = 0
    breaks: tuple[Break, ...] = ()
    fallbacks: Mapping[str, int | None] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[Error, ...] = ()
    matches_eager: bool | None = None
    guards_at_least: int = 0
    open: bool = False


@dataclass(frozen=True)
class Program:
    """A program with what it is expected to do, and the file that its marks stand in."""

    name: str
    run: Callable[[], object]
    expected: Expectation
    file: Path

    def line(self, mark: str) -> int:
        """Return the number of the line that is marked so."""
        lines = self.file.read_text(encoding="utf-8").splitlines()
        (found,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# here: {mark}")]
        return found

    def compiles(self) -> dict[str, int]:
        """Return the expected entries with line numbers in the place of marks."""
        return {self._with_lines(name): count for name, count in self.expected.compiles.items()}

    def one_by_one(self, causes: Iterable[Cause]) -> list[Cause]:
        """Return one cause for each recompile, with line numbers in the place of marks."""
        return [
            dataclasses.replace(
                _occurrence(cause, index),
                code=self._with_lines(cause.code),
                count=1,
                beside=tuple(_occurrence(change, index) for change in cause.beside),
            )
            for cause in causes
            for index in range(cause.count)
        ]

    def breaks(self) -> list[tuple[int, str, int]]:
        """Return line, kind and events of each expected break."""
        return [(self.line(one.mark), one.kind, one.events) for one in self.expected.breaks]

    def _with_lines(self, name: str) -> str:
        head, brace, rest = name.partition("{")
        return f"{head}{self.line(rest.rstrip('}'))}" if brace else name


def _occurrence(change: AnyChange, index: int) -> AnyChange:
    expected, actual = (text[index] if isinstance(text, tuple) else text for text in (change.expected, change.actual))
    return dataclasses.replace(change, expected=expected, actual=actual)


def expects(*others: Otherwise, **facts: object) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Mark a function as a program of the corpus; ``others`` are the versions of torch where it does something else."""

    def mark(run: Callable[[], object]) -> Callable[[], object]:
        told = dict(facts)
        for other in others:
            if other.holds():
                told.update(other.facts)
        run.expected = Expectation(**told)  # type: ignore[attr-defined, arg-type]
        return run

    return mark


@dataclass(frozen=True)
class Otherwise:
    """What differs in the versions of torch from ``first`` to ``last``, both as ``(2, 14)`` and both included."""

    facts: Mapping[str, object]
    first: tuple[int, int] = (0, 0)
    last: tuple[int, int] = (99, 0)

    def holds(self) -> bool:
        """Whether the installed torch is one of them."""
        major, minor = torch.__version__.split(".")[:2]
        return self.first <= (int(major), int(minor)) <= self.last


def until(major: int, minor: int, **facts: object) -> Otherwise:
    """Tell what differs in torch up to a version."""
    return Otherwise(facts, last=(major, minor))


def since(major: int, minor: int, **facts: object) -> Otherwise:
    """Tell what differs in torch from a version on."""
    return Otherwise(facts, first=(major, minor))


def needs(major: int, minor: int, why: str) -> None:
    """Skip the program on an older torch, where it ends in an error of torch's."""
    if until(major, minor - 1).holds():
        pytest.skip(why)


def programs_in(module: ModuleType) -> Iterator[Program]:
    """Yield the programs of a module."""
    for name, thing in list(vars(module).items()):
        if isinstance(getattr(thing, "expected", None), Expectation):
            yield Program(name=name, run=thing, expected=thing.expected, file=Path(module.__file__ or ""))
