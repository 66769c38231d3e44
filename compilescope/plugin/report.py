"""What a failing test says."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from compilescope.render.registry import render
from compilescope.render.words import harmless, plain
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from compilescope.plugin.judging import Ruling
    from compilescope.record import Finding, Recording


def failure(rulings: Sequence[Ruling], test: str = "", baseline: Path | None = None) -> str:
    """Return why a test fails. The first line is all that a summary of many tests shows.

    Args:
        rulings: the claims that do not hold.
        test: its node id.
        baseline: where what was found could be accepted; None where no baseline is in use.
    """
    findings = list(dict.fromkeys(one for ruling in rulings for one in ruling.findings))
    more = f" (1 of {count(len(findings), 'finding')})" if len(findings) > 1 else ""
    first = f"{findings[0].message}{more}" if findings else f"{rulings[0].claim} holds now; drop its broken=."
    lines = [f"compilescope: {first}", *(line for ruling in rulings for line in _told(ruling))]
    if baseline is not None and findings and all(one.key is not None for one in findings):
        options = (f"--compilescope-baseline={baseline}", "--compilescope-update-baseline")
        lines.append(f"  To accept this: {shlex.join(('pytest', *options, test))}")
    return "\n".join(harmless(plain(line)) for line in lines)


def _told(ruling: Ruling) -> Iterator[str]:
    reason = ruling.claim.broken
    if ruling.status == "fixed":
        yield f"  {ruling.claim} was broken: {reason}"
        return
    unexcused = f", broken: {reason} (which does not excuse what was not seen)" if reason else ""
    yield f"  {ruling.claim}{unexcused}"
    for finding in ruling.findings:
        yield f"    {finding.rule}  {finding.message}{_place(finding)}"


def _place(finding: Finding) -> str:
    if finding.file is None:
        return ""
    return f"  [{finding.file}:{finding.line}]" if finding.line else f"  [{finding.file}]"


def section(recording: Recording, test: str | None = None) -> str:
    """Return one screen on what was recorded, in ``test`` if it was one; the findings themselves stand above it."""
    meta = recording.meta if test is None else replace(recording.meta, argv=(test,))
    return render(replace(recording, meta=meta, findings=()), "text")


def findings_of(nodeid: str, rulings: Iterable[Ruling]) -> tuple[Finding, ...]:
    """Return what reports show of a test: the findings that failed it, with its name."""
    distinct = dict.fromkeys(one for ruling in rulings if ruling.status == "failed" for one in ruling.findings)
    return tuple(replace(one, message=f"{nodeid}: {one.message}") for one in distinct)
