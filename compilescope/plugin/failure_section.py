"""What a failing test says."""

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


_BY_ITSELF: Final = "The test failed by itself, and nothing that it claims was judged."
EVERYTHING: Final = 2
"""How often ``-v`` is given to pytest where a report shows all that was recorded."""


def failure(rulings: Sequence[Ruling], test: str = "", baseline: Path | None = None) -> str:
    """Return why a test fails. The first line is all that a summary of many tests shows.

    Args:
        rulings: the claims that do not hold.
        test: its node id.
        baseline: where what was found could be accepted; None where no baseline is in use.
    """
    findings = list(dict.fromkeys(one for ruling in rulings for one in ruling.findings))
    more = f" (1 of {count(len(findings), 'finding')})" if len(findings) > 1 else ""
    first = f"{findings[0].message}{more}" if findings else _held(rulings[0])
    lines = [f"compilescope: {first}", *(line for ruling in rulings for line in _told(ruling))]
    if baseline is not None and findings and all(one.key is not None for one in findings):
        options = (f"--compilescope-baseline={baseline}", "--compilescope-update-baseline")
        lines.append(f"  To accept this: {shlex.join(('pytest', *options, test))}")
    return "\n".join(harmless(plain(line)) for line in lines)


def _held(ruling: Ruling) -> str:
    return f"{ruling.claim} holds now; drop its broken=."


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


def section(recording: Recording, test: str, rulings: Iterable[Ruling], verbosity: int) -> str:
    """Return what was recorded in a failing test: its first lines say what happened and what to do.

    Args:
        recording: of the test.
        test: its node id.
        rulings: what it claims; none where it failed by itself.
        verbosity: of pytest; from 2 on all is shown, else one screen.
    """
    options = Options(verbose=verbosity >= EVERYTHING, more="-vv", steps=False)
    judged = tuple(rulings)
    found = replace(recording, findings=_failing(judged))
    held = next((_held(ruling) for ruling in judged if ruling.status == "fixed"), _BY_ITSELF)
    # The findings stand above it.
    bare = replace(recording, meta=replace(recording.meta, argv=(test,)), findings=())
    return f"{lead(found, options, held)}\n{FORMATS['text'].render(bare, options)}"


def page(recording: Recording) -> str:
    """Return one screen on what was recorded, for whoever has the recording in hand."""
    options = Options(more="render(recording, 'text', verbose=True)")
    return FORMATS["text"].render(replace(recording, findings=()), options)


def _failing(rulings: Iterable[Ruling]) -> tuple[Finding, ...]:
    """Return the findings that fail a test, each once."""
    return tuple(dict.fromkeys(found for ruling in rulings if ruling.status == "failed" for found in ruling.findings))


def findings_of(nodeid: str, rulings: Iterable[Ruling]) -> tuple[Finding, ...]:
    """Return what reports show of a test: the findings that failed it, with its name."""
    return tuple(replace(found, message=f"{nodeid}: {found.message}") for found in _failing(rulings))
