"""The report for a terminal: by default one screen, with ``verbose`` everything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from compilescope.analysis.grouping import causes_of
from compilescope.analysis.summary import alarms, totals, verdict
from compilescope.render.judgement import outcome_of
from compilescope.render.sweeps import sweeps_section
from compilescope.render.text.code_objects import codes_section
from compilescope.render.text.layout import (
    EVERYTHING,
    HEIGHT,
    LEVELS,
    Line,
    broken,
    fit,
    page_width,
    printed,
    styled,
)
from compilescope.render.text.sections import (
    breaks_section,
    fallbacks_section,
    findings_sections,
    next_line,
    targets_section,
)
from compilescope.render.text.verbose import verbose_sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compilescope.record import Recording
    from compilescope.render.options import Options
    from compilescope.render.text.layout import Detail, Section

_BLANK: Final = styled()


@dataclass(frozen=True, slots=True)
class TextRenderer:
    """Renders for people at a terminal."""

    name: str = "text"
    extension: str = ".txt"

    def render(self, recording: Recording, options: Options) -> str:
        """Return the report."""
        width = page_width(options.width)
        lines = _everything(recording, options) if options.verbose else _screen(recording, width, options)
        return printed(lines, width=width, color=options.color, cut=not options.verbose)


def _screen(recording: Recording, width: int, options: Options) -> list[Line]:
    """Show as much as fits: first drop detail, then things."""
    head = _head(recording)
    helped = any(cause.advice for c in recording.compilations for cause in causes_of(c.recompile))
    for detail in LEVELS:
        last = next_line(recording, options, hints_left_out=helped and not detail.advice)
        sections = _sections(recording, replace(detail, more=options.more))
        if sum(section.height + 1 for section in sections) > HEIGHT:
            continue
        parts = [section.broken(width).lines() for section in sections]
        lines = _joined(broken(head, width), parts, broken(last, width))
        if len(lines) <= HEIGHT:
            return lines
    # The verdict is shown whole; alarms take one row each.
    settings = _settings(recording)
    *alarmed, said = head[: -len(settings)]
    head = [*alarmed, *said.rows(width), *settings]
    last = broken(last, width)
    blanks = len(sections) + bool(last)
    return _joined(head, fit(sections, HEIGHT - len(head) - blanks - len(last)), last)


def _everything(recording: Recording, options: Options) -> list[Line]:
    sections = _sections(recording, EVERYTHING)
    extra = [section for section in verbose_sections(recording) if section.blocks]
    parts = [section.lines() for section in (*sections, *extra)]
    return _joined(_head(recording), parts, next_line(recording, options))


def _sections(recording: Recording, detail: Detail) -> list[Section]:
    sections = (
        *findings_sections(recording, every=detail is EVERYTHING, more=detail.more),
        codes_section(recording, detail),
        breaks_section(recording, every=detail is EVERYTHING),
        fallbacks_section(recording, every=detail is EVERYTHING),
        targets_section(recording, every=detail is EVERYTHING),
        sweeps_section(recording, detail.more),
    )
    return [replace(section, more=detail.more) for section in sections if section.blocks]


def _head(recording: Recording) -> list[Line]:
    alarmed = [
        styled(("!! " if alarm.wrong else "?? ") + alarm.text, style="bold red" if alarm.wrong else "yellow", hang=3)
        for alarm in alarms(recording)
    ]
    counts = totals(recording)
    sound = not alarmed and counts.recompiles == counts.breaks == counts.fallbacks == counts.failed == 0
    said = styled(verdict(recording), style="bold green" if sound else "bold", hang=0)
    return [*_outcome(recording), *alarmed, said, *_settings(recording)]


def _outcome(recording: Recording) -> list[Line]:
    outcome = outcome_of(recording)
    if outcome is None:
        return []
    style = "bold green" if outcome.passed else "bold red"
    return [styled((outcome.word, style), f": {outcome.details}", hang=len(outcome.word) + 2)]


def _settings(recording: Recording) -> list[Line]:
    """Return where this ran, and what compilescope compiled and how."""
    meta = recording.meta
    rank = "" if meta.rank is None else f", rank {meta.rank}"
    # Only the program's name: its location says nothing about what it ran.
    ran = f": {' '.join((meta.argv[0].rpartition('/')[2], *meta.argv[1:]))}" if meta.argv else ""
    where = f"torch {meta.torch}, Python {meta.python}, {meta.device}{rank}{ran}"
    said = dict.fromkeys(f"compiled: {sweep.setup}" for sweep in recording.sweeps if sweep.setup is not None)
    return [styled(where, style="dim"), *(styled(line, style="dim", hang=2) for line in said)]


def _joined(head: Sequence[Line], parts: Sequence[Sequence[Line]], last: Sequence[Line]) -> list[Line]:
    lines = list(head)
    for part in parts:
        lines += [_BLANK, *part]
    return [*lines, _BLANK, *last] if last else lines
