"""What a program of the corpus is expected to do under Dynamo, and how a recording is held against it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from compilescope.record import Recording


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A recompile of ``code`` and its first cause, ``count`` times in a row."""

    code: str
    kind: str
    source: str
    shape_driven: bool
    count: int = 1


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
        breaks: break sites, in the order of their first event.
        limit: whether the recompile limit was met.
        fallbacks: calls that ran eager, by kind of fallback.
        targets: what became of each selector, which the program is observed with.
        errors: of the compilations that failed.
        matches_eager: what the program returns, which then says whether the compiled result is right.
        guards_at_least: guards that the only entry holds, at the least.
        open: whether frames of a library, which differ between versions of it, may come along.
    """

    compiles: Mapping[str, int] = field(default_factory=dict)
    recompiles: tuple[Cause, ...] = ()
    breaks: tuple[Break, ...] = ()
    limit: bool = False
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

    def expected_compiles(self) -> dict[str, int]:
        """Return the expected entries with line numbers in the place of marks."""
        return {_with_lines(name, self): count for name, count in self.expected.compiles.items()}

    def expected_causes(self) -> list[tuple[str, str, str, bool]]:
        """Return code, kind, source and shape-driven of each expected recompile."""
        return [
            (_with_lines(cause.code, self), cause.kind, _in_order(cause.source), cause.shape_driven)
            for cause in self.expected.recompiles
            for _ in range(cause.count)
        ]

    def expected_breaks(self) -> list[tuple[int, str, int]]:
        """Return line, kind and events of each expected break."""
        return [(self.line(one.mark), one.kind, one.events) for one in self.expected.breaks]


def _with_lines(name: str, program: Program) -> str:
    head, brace, rest = name.partition("{")
    return f"{head}{program.line(rest.rstrip('}'))}" if brace else name


def _in_order(source: str) -> str:
    # Which of two sizes an equation is solved for depends on how Dynamo names its symbols.
    return ", ".join(sorted(source.split(", ")))


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


def programs_in(module: ModuleType) -> Iterator[Program]:
    """Yield the programs of a module."""
    for name, thing in list(vars(module).items()):
        if isinstance(getattr(thing, "expected", None), Expectation):
            yield Program(name=name, run=thing, expected=thing.expected, file=Path(module.__file__ or ""))


def compiles(recording: Recording) -> dict[str, int]:
    """Return how many entries were made, by qualified name."""
    return dict(Counter(recording.code(c.code).qualname for c in recording.compiled))


def causes(recording: Recording) -> list[tuple[str, str, str, bool]]:
    """Return code, kind and source of the first cause, and shape-driven, of each recompile."""
    found = []
    for compilation in recording.recompiles:
        recompile = compilation.recompile
        assert recompile is not None
        first = recompile.causes[0]
        found.append(
            (recording.code(compilation.code).qualname, first.kind, _in_order(first.source), recompile.shape_driven)
        )
    return found
