"""Groups what a report shows together: code objects with their resume functions, recompiles with one cause.

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
class ChangeGroup:
    """One change of one code object, and the recompiles that it explains.

    Attributes:
        members: the compilations, oldest first: recompiles, and refused attempts with the same change.
        causes: the change as each member saw it; empty if no cause is known.
    """

    members: tuple[Compilation, ...]
    causes: tuple[Failure, ...]

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """The recompiles of the members, with their causes."""
        return tuple(member.recompile for member in self.members if member.recompile is not None)

    @property
    def transitions(self) -> tuple[tuple[str, str], ...]:
        """The distinct (expected, actual) pairs over all members."""
        return tuple(dict.fromkeys((cause.expected, cause.actual) for cause in self.causes))

    @property
    def places(self) -> int:
        """At how many guards the change was seen, at most."""
        return max((cause.places for cause in self.causes), default=0)

    @property
    def beside(self) -> tuple[Failure, ...]:
        """The other changes of the members, if every member has some; one for each kind and source."""
        if not all(len(causes_of(recompile)) > 1 for recompile in self.recompiles):
            return ()
        own = {_identity(cause) for cause in self.causes}
        others = (other for recompile in self.recompiles for other in causes_of(recompile))
        return tuple({_identity(other): other for other in others if _identity(other) not in own}.values())


def _identity(cause: Failure) -> tuple[str, str]:
    return cause.kind or "", cause.source


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Attempts of one code object that ended the same way, without an entry."""

    members: tuple[Compilation, ...]


@dataclass(frozen=True, slots=True)
class CodeReport:
    """One code object, its compilation attempts, and its resume functions.

    Attributes:
        code: the code object.
        target: whether it is one of the user's targets.
        attempts: its own compilations with any outcome, oldest first.
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
        """The attempts that produced an entry when there was an older one."""
        return tuple(c for c in self.compiled if c.recompile is not None)

    @property
    def seconds(self) -> float:
        """Wall time of the attempts."""
        return sum(c.seconds for c in self.attempts)

    @property
    def guards(self) -> str | None:
        """Guards per entry, as ``404`` or ``395-404``; None if none were counted."""
        counts = [c.guards for c in self.compiled if c.guards is not None]
        if not counts:
            return None
        return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}"

    @property
    def outcomes(self) -> Counter[str]:
        """How many attempts did not end as compiled, by outcome; a limit counts as ``limit`` however it ended."""
        return Counter("limit" if met_limit(c) else c.outcome for c in self.attempts if c.outcome != "compiled")

    @property
    def changes(self) -> tuple[ChangeGroup, ...]:
        """The changes that explain the recompiles and the refused attempts, in order of first occurrence."""
        found: dict[tuple[str, str], list[tuple[Compilation, Failure | None]]] = {}
        for attempt in self.attempts:
            if attempt.recompile is None:
                continue
            for cause in causes_of(attempt.recompile) or (None,):
                key = ("", "") if cause is None else _identity(cause)
                found.setdefault(key, []).append((attempt, cause))
        return tuple(
            ChangeGroup(tuple(member for member, _ in group), tuple(cause for _, cause in group if cause is not None))
            for group in found.values()
        )

    @property
    def errors(self) -> tuple[ErrorGroup, ...]:
        """The attempts with an error, by its message, in order of first occurrence."""
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
    """Return the failing guards that only follow from another."""
    return tuple(failure for failure in entry.failing if failure.consequence_of is not None)


def code_reports(recording: Recording) -> tuple[CodeReport, ...]:
    """Return every code object with attempts: targets first, then most recompiles; resume functions within."""
    attempts: dict[str, list[Compilation]] = {}
    for compilation in recording.compilations:
        attempts.setdefault(compilation.code, []).append(compilation)
    codes = {code.id: code for code in recording.code_objects}
    for name in attempts:
        # A truncated log may name code that it never introduced.
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
    # The rest resume each other in a circle: an invalid recording, but they must not disappear.
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
