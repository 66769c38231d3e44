"""Holds what the tool reports against the changes that were made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .programs import MODULE

if TYPE_CHECKING:
    from compilescope.record import Failure

    from .parts import Change, Part, Texts
    from .programs import Program
    from .running import Outcome

_DECORATION: Final = re.compile(r"^(?:length|class|function) | (?:module|object)$")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a report has wrong.

    Attributes:
        sort: ``missing`` (a change that was made is not reported), ``foreign`` (one that was not made is), ``twice``
            (one is reported more than once), ``shape_driven``, ``recompile`` (seen or not against the count).
        text: for people.
        part: that it is about, or seems to be.
        cause: that is wrong.
    """

    sort: str
    text: str
    part: Part | None = None
    cause: Failure | None = None


def judge(program: Program, outcome: Outcome) -> list[Fault]:
    """Return what the report has wrong; nothing if the changes reported are exactly those made."""
    recompiles = [c.recompile for c in outcome.recording.recompiles if c.recompile is not None]
    if len(recompiles) != outcome.recompiled:
        return [Fault("recompile", f"{len(recompiles)} recompiles in the recording, torch: {outcome.recompiled}")]
    if not recompiles:
        return []
    causes = recompiles[0].causes
    due = [part for part in program.facts if part.name in outcome.alone]
    faults = [*_of_each_cause(due, program, causes), *_of_each_part(due, causes)]
    shape_driven = all(part.change.shape for part in due)
    if not faults and recompiles[0].shape_driven != shape_driven:
        faults.append(Fault("shape_driven", f"shape_driven is {recompiles[0].shape_driven}", due[0]))
    return faults


def _of_each_cause(due: list[Part], program: Program, causes: tuple[Failure, ...]) -> list[Fault]:
    return [
        Fault("foreign", f"reported and not made: {tell(cause)}", _nearest(cause, program), cause)
        for cause in causes
        if sum(matches(part.change, cause) for part in due) != 1
    ]


def _nearest(cause: Failure, program: Program) -> Part | None:
    """Return the part that a wrong cause seems to speak of."""
    text = f"{cause.source} {cause.guard}".lower()
    return next((part for part in program.parts if part.name in text), None)


def _of_each_part(due: list[Part], causes: tuple[Failure, ...]) -> list[Fault]:
    faults = []
    for part in due:
        count = sum(matches(part.change, cause) for cause in causes)
        if count != 1:
            faults.append(Fault("twice" if count else "missing", f"reported {count} times: {part.told}", part))
    return faults


def matches(change: Change, failure: Failure) -> bool:
    """Whether a report speaks of that change: by its kind, its place and its values."""
    return (
        failure.kind in change.kinds
        and {_source(name) for name in (failure.source, *failure.also)} <= change.sources
        and _agrees(change.expected, failure.expected)
        and _agrees(change.actual, failure.actual)
        and _names(change, failure)
    )


def _source(text: str) -> str:
    return text.replace(f"{MODULE}.", "")


def _agrees(allowed: Texts, told: str) -> bool:
    return allowed is None or _DECORATION.sub("", told.replace(f"{MODULE}.", "")) in allowed


def _names(change: Change, failure: Failure) -> bool:
    """Whether a key that came or went is named, and on the right side."""
    if not change.names:
        return True
    sides = (failure.expected, failure.actual)
    if set(sides) == {"present", "absent"}:
        right = change.came is None or sides == (("absent", "present") if change.came else ("present", "absent"))
        return right and any(_speaks_of(name, failure.guard) for name in change.names)
    return any(_speaks_of(name, f"{failure.expected} {failure.actual} {failure.guard}") for name in change.names)


def _speaks_of(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name.strip(chr(39)))}(?!\w)", text.replace(f"{MODULE}.", "")) is not None


def tell(failure: Failure) -> str:
    """Write a reported change on one line."""
    also = f", also {', '.join(failure.also)}" if failure.also else ""
    return f"{failure.kind} of {failure.source}{also}: {failure.expected} -> {failure.actual}  [{failure.guard}]"
