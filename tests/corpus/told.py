"""What a recording says, in the form in which an expectation says it, so that the two can be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ..confusion import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compilescope.record import Compilation, Failure, Recording

    from .expectation import Cause, Change, Program

OPEN = "*"


@dataclass(frozen=True)
class Reading:
    """The recompiles of a program as lines of text, wanted and given, and their kinds in pairs.

    A field that the expectation leaves open is ``*`` on both sides.
    """

    wanted: str
    given: str
    kinds: tuple[list[str], list[str]]


def read(program: Program, recording: Recording, compilations: Iterable[Compilation], wanted: list[Cause]) -> Reading:
    """Hold the causes of compilations against the wanted ones, all of them, recompile by recompile."""
    asked: list[str] = []
    given: list[str] = []
    kinds: tuple[list[str], list[str]] = ([], [])
    for cause, compilation in zip_longest(wanted, compilations):
        failures = _causes(compilation)
        pairs = list(_pairs(cause.changes if cause else (), failures))
        if cause is not None:
            asked += [_head(cause.code, shape_driven=cause.shape_driven)]
            asked += sorted(_wanted(change, program) for change, _ in pairs if change is not None)
        if compilation is not None:
            shape_driven = compilation.recompile.shape_driven if compilation.recompile else None
            left_open = cause is not None and cause.shape_driven is None
            code = recording.code(compilation.code).qualname
            given += [_head(code, shape_driven=None if left_open else shape_driven)]
            given += sorted(_given(change, failure) for change, failure in pairs if failure is not None)
        for change, failure in pairs:
            kinds[0].append(change.kind if change else NOTHING)
            kinds[1].append(failure.kind or NOTHING if failure else NOTHING)
    return Reading("\n".join(asked), "\n".join(given), kinds)


def compiles(recording: Recording) -> dict[str, int]:
    """Return how many entries were made, by qualified name."""
    return dict(Counter(recording.code(c.code).qualname for c in recording.compiled))


def fallbacks(recording: Recording) -> dict[str, int | None]:
    """Return how many calls ran eager, by kind of fallback."""
    found: dict[str, int | None] = {}
    for one in recording.fallbacks:
        before = found.get(one.kind, 0)
        found[one.kind] = None if one.calls is None or before is None else before + one.calls
    return found


def _causes(compilation: Compilation | None) -> list[Failure]:
    return list(compilation.recompile.causes) if compilation is not None and compilation.recompile is not None else []


def _pairs(changes: Iterable[Change], failures: list[Failure]) -> Iterator[tuple[Change | None, Failure | None]]:
    left = list(failures)
    unmet = []
    for change in changes:
        same = next((f for f in left if f.kind == change.kind and _same_source(change, f)), None)
        if same is None:
            unmet.append(change)
        else:
            left.remove(same)
            yield change, same
    for change in unmet:
        yield change, left.pop(0) if left else None
    for failure in left:
        yield None, failure


def _same_source(change: Change, failure: Failure) -> bool:
    if change.source is None:
        return True
    wanted = {_in_order(source) for source in (change.source, *change.also)}
    return not wanted.isdisjoint(_in_order(source) for source in (failure.source, *failure.also))


def _head(code: str, *, shape_driven: bool | None) -> str:
    words = {True: "shape-driven", False: "not shape-driven", None: OPEN}
    return f"{code} {words[shape_driven]}"


def _wanted(change: Change, program: Program) -> str:
    source = OPEN if change.source is None else _sources(change.source, change.also)
    line = OPEN if change.line is None else program.line(change.line)
    return _line(change.kind, source, change.expected, change.actual, line, change.places, change.names)


def _given(change: Change | None, failure: Failure) -> str:
    sources = _sources(failure.source, failure.also)
    line = failure.where.line if failure.where is not None else "nowhere"
    kind = failure.kind or OPEN
    if change is None:
        return _line(kind, sources, failure.expected, failure.actual, line, failure.places, ())
    if change.source is None:
        sources = OPEN
    elif not change.also:
        sources = _in_order(failure.source)
    return _line(
        kind,
        sources,
        None if change.expected is None else failure.expected,
        None if change.actual is None else failure.actual,
        OPEN if change.line is None else line,
        None if change.places is None else failure.places,
        [name for name in change.names if name in f"{failure.expected} -> {failure.actual}"],
    )


def _line(
    kind: str,
    sources: str,
    expected: object,
    actual: object,
    line: int | str,
    places: int | None,
    names: Iterable[str],
) -> str:
    sides = f"{OPEN if expected is None else expected} -> {OPEN if actual is None else actual}"
    return f"  {kind} {sources}: {sides} at {line}, {places or OPEN} places, naming {list(names)}"


def _sources(first: str, others: tuple[str, ...]) -> str:
    return " and ".join(sorted({_in_order(source) for source in (first, *others)}))


def _in_order(source: str) -> str:
    # Which of two sizes an equation is solved for depends on how Dynamo names its symbols.
    return ", ".join(sorted(source.split(", ")))
