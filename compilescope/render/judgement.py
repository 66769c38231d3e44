"""The result of ``check``, in words for any format: the verdict, and what the baseline says about each finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compilescope.render.words import plain
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.record import Finding, Judgement, Recording


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict of a check.

    Attributes:
        passed: whether the run has no findings.
        word: ``FAILED`` or ``passed``.
        details: what was found, counted.
    """

    passed: bool
    word: str
    details: str


def outcome_of(recording: Recording) -> Outcome | None:
    """Return the verdict; None if the run was not judged."""
    judgement = recording.judgement
    if judgement is None:
        return None
    passed = not recording.findings and judgement.error is None
    return Outcome(passed, "passed" if passed else "FAILED", plain("; ".join(_details(recording, judgement))))


def _details(recording: Recording, judgement: Judgement) -> Iterator[str]:
    number = count(len(recording.findings), "finding")
    if judgement.error is not None:
        yield f"the baseline was not written: {judgement.error}"
    if judgement.baseline is None:
        yield number if recording.findings else "no findings"
        return
    yield f"{number} that {judgement.baseline} does not accept" if recording.findings else "no new findings"
    if judgement.earlier_torch is not None and recording.findings:
        unchanged = len(judgement.unchanged)
        yield f"it accepts {unchanged or 'none'} of them under torch {judgement.earlier_torch}"
    if judgement.accepted:
        yield f"{len(judgement.accepted)} accepted"
    if judgement.fixed:
        yield f"{len(judgement.fixed)} fixed"


def remark_on(finding: Finding, recording: Recording) -> str:
    """Return what the baseline says about a finding that it does not accept; empty if nothing."""
    judgement = recording.judgement
    if judgement is None or judgement.earlier_torch is None:
        return ""
    known = finding in judgement.unchanged
    version = judgement.earlier_torch
    return f"accepted under torch {version}" if known else f"not accepted under torch {version} either"
