"""The first lines of a failing test's section: what happened, and what to do."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from compilescope.analysis.glossary import BREAK, words_called
from compilescope.analysis.rules import GRAPH_BREAK, OWN_GRAPH_BREAK, RULES, SHAPE_RECOMPILE
from compilescope.render.next_steps import next_steps
from compilescope.render.text.layout import WIDTH
from compilescope.render.words import clip, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope.record import Finding, Recording
    from compilescope.render.options import Options

_ROWS: Final = 3
"""Rows for what helps, so that the first five lines of the section hold what happened, what helps and the next step."""
_HELPS: Final = "What helps: "
_NEXT: Final = "Next: "


def lead(recording: Recording, options: Options, otherwise: str) -> str:
    """Return the first lines of a section.

    Args:
        recording: of the test, with the findings that failed it.
        options: how the section is shown.
        otherwise: what happened if there are none.
    """
    finding = next(iter(recording.findings), None)
    happened = clip(plain(otherwise if finding is None else finding.message), WIDTH)
    helps = [] if finding is None else _what_helps(finding, recording)
    return "\n".join([happened, *helps, *_next(next_steps(recording, options)), ""])


def _next(steps: Sequence[str]) -> Iterator[str]:
    """Yield as many steps as one row holds: half a command is useless."""
    row = ""
    for step in steps:
        longer = f"{row} | {step}" if row else f"{_NEXT}{step}"
        row = longer if len(longer) <= WIDTH or not row else row
    if row:
        yield row


def _what_helps(finding: Finding, recording: Recording) -> list[str]:
    """Return the first piece of advice that fits whole."""
    advice = [*_advice(finding, recording), RULES[finding.rule].remedy]
    return next((rows for text in advice if text and len(rows := _rows(_HELPS, plain(text))) <= _ROWS), [])


def _advice(finding: Finding, recording: Recording) -> Iterator[str]:
    """Yield what helps against the causes of a finding; of several recompiles the last one is over the limit."""
    if finding.rule in {GRAPH_BREAK.code, OWN_GRAPH_BREAK.code}:
        sites = (site for site in recording.graph_breaks if (site.file, site.line) == (finding.file, finding.line))
        for site in sites:
            yield site.advice or ""
            yield from (word.remedy for word in words_called(site.kind) if word.family == BREAK)
        return
    recompiles = [c.recompile for c in recording.compilations if c.code == finding.code and c.recompile]
    if finding.rule == SHAPE_RECOMPILE.code:
        recompiles = [recompile for recompile in recompiles if recompile.shape_driven]
    yield from (cause.advice or "" for recompile in recompiles[-1:] for cause in recompile.causes)


def _rows(label: str, text: str) -> list[str]:
    hang = " " * len(label)
    return textwrap.wrap(
        text, WIDTH, initial_indent=label, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
    )
