"""The report section of a failing test."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from compilescope.plugin.lead import lead
from compilescope.render.options import Options
from compilescope.render.registry import FORMATS
from compilescope.render.words import harmless, plain
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from compilescope.plugin.rulings import Ruling
    from compilescope.record import Finding, Recording


_BY_ITSELF: Final = "The test itself failed, so nothing that it claims was checked."
EVERYTHING: Final = 2
"""The verbosity of pytest at which a report shows everything."""


def failure(rulings: Sequence[Ruling], test: str = "", baseline: Path | None = None) -> str:
    """Return why a test fails. A summary of many tests shows only the first line.

    Args:
        rulings: the claims that do not hold.
        test: its node id.
        baseline: where the findings can be accepted; None without a baseline.
    """
    findings = list(dict.fromkeys(finding for ruling in rulings for finding in ruling.findings))
    more = f" (1 of {count(len(findings), 'finding')})" if len(findings) > 1 else ""
    first = f"{findings[0].message}{more}" if findings else _held(rulings[0])
    lines = [f"compilescope: {first}", *(line for ruling in rulings for line in _described(ruling))]
    if baseline is not None and findings and all(finding.key is not None for finding in findings):
        options = (f"--compilescope-baseline={baseline}", "--compilescope-update-baseline")
        lines.append(f"  To accept this: {shlex.join(('pytest', *options, test))}")
    return "\n".join(harmless(plain(line)) for line in lines)


def _held(ruling: Ruling) -> str:
    return f"{ruling.claim} holds now: remove its broken=."


def _described(ruling: Ruling) -> Iterator[str]:
    reason = ruling.claim.broken
    if ruling.status == "fixed":
        yield f"  {ruling.claim} was broken: {reason}"
        return
    unexcused = f", broken: {reason} (which does not excuse what was not recorded)" if reason else ""
    yield f"  {ruling.claim}{unexcused}"
    for finding in ruling.findings:
        yield f"    {finding.rule}  {finding.message}{_place(finding)}"


def _place(finding: Finding) -> str:
    if finding.file is None:
        return ""
    return f"  [{finding.file}:{finding.line}]" if finding.line else f"  [{finding.file}]"


def section(recording: Recording, test: str, rulings: Iterable[Ruling], verbosity: int) -> str:
    """Return the report of a failing test: its first lines say what happened and what to do.

    Args:
        recording: of the test.
        test: its node id.
        rulings: on its claims; none if the test itself failed.
        verbosity: of pytest; from 2 on everything is shown, else one screen.
    """
    options = Options(verbose=verbosity >= EVERYTHING, more="-vv", steps=False)
    judged = tuple(rulings)
    found = replace(recording, findings=_failing(judged))
    held = next((_held(ruling) for ruling in judged if ruling.status == "fixed"), _BY_ITSELF)
    # The findings are printed above it.
    bare = replace(recording, meta=replace(recording.meta, argv=(test,)), findings=())
    return f"{lead(found, options, held)}\n{FORMATS['text'].render(bare, options)}"


def page(recording: Recording) -> str:
    """Return a report of one screen, for a test that has the recording itself."""
    options = Options(more="render(recording, 'text', verbose=True)")
    return FORMATS["text"].render(replace(recording, findings=()), options)


def _failing(rulings: Iterable[Ruling]) -> tuple[Finding, ...]:
    """Return the findings that fail a test, each once."""
    return tuple(dict.fromkeys(found for ruling in rulings if ruling.status == "failed" for found in ruling.findings))


def findings_of(nodeid: str, rulings: Iterable[Ruling]) -> tuple[Finding, ...]:
    """Return the findings that failed a test, with its name, for reports."""
    return tuple(replace(found, message=f"{nodeid}: {found.message}") for found in _failing(rulings))
