"""What belongs together on a page: code objects with their resume functions, recompiles with one cause.

A report that prints eight recompiles for eight static sizes hides the one line that matters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compilescope.analysis.causes import roots_of
from compilescope.analysis.summary import met_limit
from compilescope.record import CodeObject

if TYPE_CHECKING:
    from collections.abc import Iterable

    from compilescope.record import Compilation, EntryMiss, Failure, Recompile, Recording, Sweep, SweepPoint


@dataclass(frozen=True, slots=True)
class RecompileGroup:
    """Recompiles of one code object whose causes have the same kinds and sources.

    Attributes:
        members: the compilations, oldest first.
        causes: the causes of the first of them; empty where none is known.
    """

    members: tuple[Compilation, ...]
    causes: tuple[Failure, ...]

    @property
    def kinds(self) -> tuple[tuple[Failure, ...], ...]:
        """The causes, those of one kind together."""
        found: dict[str | None, list[Failure]] = {}
        for cause in self.causes:
            found.setdefault(cause.kind, []).append(cause)
        return tuple(tuple(alike) for alike in found.values())

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """What the members say of their causes."""
        return tuple(member.recompile for member in self.members if member.recompile is not None)

    def transitions(self, cause: Failure) -> tuple[tuple[str, str], ...]:
        """Return the distinct (expected, actual) pairs of one cause over all members."""
        pairs = [
            (other.expected, other.actual)
            for recompile in self.recompiles
            for other in causes_of(recompile)
            if (other.kind, other.source) == (cause.kind, cause.source)
        ]
        return tuple(dict.fromkeys(pairs))


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Attempts of one code object that ended in the same way without an entry."""

    members: tuple[Compilation, ...]


@dataclass(frozen=True, slots=True)
class CodeReport:
    """One code object, what was tried with it, and its resume functions.

    Attributes:
        code: the code object.
        target: whether the user meant it to be compiled.
        attempts: its own compilations of any outcome, oldest first.
        children: its resume functions.
    """

    code: CodeObject
    target: bool
    attempts: tuple[Compilation, ...]
    children: tuple[CodeReport, ...]

    @property
    def compiled(self) -> tuple[Compilation, ...]:
        """The attempts that produced an entry."""
        return tuple(c for c in self.attempts if c.outcome == "compiled")

    @property
    def recompiles(self) -> tuple[Compilation, ...]:
        """The attempts that produced an entry beside an older one."""
        return tuple(c for c in self.compiled if c.recompile is not None)

    @property
    def seconds(self) -> float:
        """Wall time of the attempts."""
        return sum(c.seconds for c in self.attempts)

    @property
    def guards(self) -> str | None:
        """Guards an entry, as ``404`` or ``395-404``; None where none were counted."""
        counts = [c.guards for c in self.compiled if c.guards is not None]
        if not counts:
            return None
        return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}"

    @property
    def outcomes(self) -> Counter[str]:
        """How many attempts ended otherwise than compiled, by outcome; a limit counts as one however it showed."""
        return Counter("limit" if met_limit(c) else c.outcome for c in self.attempts if c.outcome != "compiled")

    @property
    def groups(self) -> tuple[RecompileGroup, ...]:
        """The recompiles by cause, in order of their first."""
        found: dict[tuple[tuple[str, str], ...], list[Compilation]] = {}
        for compilation in self.recompiles:
            key = sorted({(c.kind or "", c.source) for c in causes_of(compilation.recompile)})
            found.setdefault(tuple(key), []).append(compilation)
        return tuple(RecompileGroup(tuple(group), causes_of(group[0].recompile)) for group in found.values())

    @property
    def errors(self) -> tuple[ErrorGroup, ...]:
        """The attempts with an error, by what it says, in order of their first."""
        found: dict[tuple[str, str, str], list[Compilation]] = {}
        for attempt in self.attempts:
            if attempt.error is not None:
                key = (attempt.outcome, attempt.error.kind, attempt.error.message)
                found.setdefault(key, []).append(attempt)
        return tuple(ErrorGroup(tuple(group)) for group in found.values())


def causes_of(recompile: Recompile | None) -> tuple[Failure, ...]:
    """Return the causes, or before analysis the root failures of the closest entry."""
    if recompile is None:
        return ()
    if recompile.causes:
        return recompile.causes
    return next((roots_of(entry) for entry in recompile.entries if entry.id == recompile.closest), ())


def consequences_of(entry: EntryMiss) -> tuple[Failure, ...]:
    """Return the failing guards that merely follow from another."""
    return tuple(failure for failure in entry.failing if failure.consequence_of is not None)


def code_reports(recording: Recording) -> tuple[CodeReport, ...]:
    """Return every code object with attempts: targets first, then most recompiles; resume functions within."""
    attempts: dict[str, list[Compilation]] = {}
    for compilation in recording.compilations:
        attempts.setdefault(compilation.code, []).append(compilation)
    codes = {code.id: code for code in recording.code_objects}
    for name in attempts:
        # A log that was cut short may speak of code that it never introduced.
        codes.setdefault(name, CodeObject(id=name, qualname=name, file="?", line=0))
    children: dict[str, list[str]] = {}
    for code in codes.values():
        if code.resumes is not None:
            children.setdefault(code.resumes, []).append(code.id)
    targets = {code for target in recording.targets for code in target.codes}
    seen: set[str] = set()

    def build(code: CodeObject) -> CodeReport:
        seen.add(code.id)
        below = [build(codes[child]) for child in children.get(code.id, ()) if child not in seen]
        return CodeReport(code, code.id in targets, tuple(attempts.get(code.id, ())), _with_attempts(below))

    roots = [build(code) for code in codes.values() if code.resumes not in codes]
    # What is left resumes itself in a circle: no sound recording, yet it must not vanish.
    roots += [build(code) for code in codes.values() if code.id not in seen]
    return tuple(sorted(_with_attempts(roots), key=lambda report: (not report.target, -_weight(report))))


def _with_attempts(reports: Iterable[CodeReport]) -> tuple[CodeReport, ...]:
    return tuple(report for report in reports if report.attempts or report.children)


def _weight(report: CodeReport) -> int:
    own = len(report.recompiles) + report.outcomes["limit"] + report.outcomes["failed"]
    return own + sum(_weight(child) for child in report.children)


def failed_points(sweep: Sweep) -> dict[str, list[SweepPoint]]:
    """Return the points of a sweep that raised, by their error."""
    found: dict[str, list[SweepPoint]] = {}
    for point in sweep.points:
        if point.status == "error":
            found.setdefault(point.error or "no message", []).append(point)
    return found
