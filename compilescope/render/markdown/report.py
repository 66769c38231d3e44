"""The report for a GitHub job summary, comment or issue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.analysis.grouping import code_reports
from compilescope.analysis.summary import alarms, display_names, gist, validation
from compilescope.render.judgement import outcome_of, remark_on
from compilescope.render.markdown.page import Page, bullets, code, preformatted, prose
from compilescope.render.sweeps import axis_lines, error_lines, parity_line, sweep_title
from compilescope.render.words import axes_note, kind_of, place, point_text, seconds, values_alone
from compilescope.storage import merge_breaks
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.analysis.grouping import ChangeGroup, CodeReport
    from compilescope.record import Compilation, Finding, Recording
    from compilescope.render.options import Options

_CAUSE_COLUMNS: Final = (
    "Code object",
    "Compile",
    "Kind",
    "Source",
    "Compiled for → came",
    "Shape-driven",
    "Moved",
    "Where",
)
_YES_NO: Final = {True: "yes", False: "no", None: "not checked"}


@dataclass(frozen=True, slots=True)
class MarkdownRenderer:
    """Renders GitHub-flavoured markdown below GitHub's limit on a comment."""

    name: str = "markdown"
    extension: str = ".md"

    def render(self, recording: Recording, options: Options) -> str:
        """Return the document; ``verbose`` shows as much as the limit allows."""
        page = Page()
        _head(page, recording)
        _findings(page, recording)
        _codes(page, recording)
        _breaks(page, recording)
        _fallbacks(page, recording)
        _targets(page, recording)
        _sweeps(page, recording)
        if recording.meta.run is not None and recording.meta.run.traceback:
            page.fold("Traceback of the workload", [preformatted(recording.meta.run.traceback)], noun="traceback")
        if options.verbose:
            _config(page, recording)
        _compilations(page, recording)
        return str(page)


def _head(page: Page, recording: Recording) -> None:
    outcome = outcome_of(recording)
    if outcome is None:
        page.add("## compilescope")
    else:
        page.add(f"## compilescope: {outcome.word}\n\n**{outcome.word}**: {prose(outcome.details, width=800)}.")
    page.add(prose(validation(recording), width=800))
    loud = alarms(recording)
    if loud:
        page.add(bullets(f"**{prose(alarm.text)}**" if alarm.wrong else prose(alarm.text) for alarm in loud))
    for setup in dict.fromkeys(sweep.setup for sweep in recording.sweeps if sweep.setup is not None):
        page.add(prose(f"Compiled: {setup}.", width=800))


def _findings(page: Page, recording: Recording) -> None:
    if recording.findings:
        page.add("### Findings")
        rows = (_finding_row(finding, remark_on(finding, recording)) for finding in recording.findings)
        page.table(("Rule", "What", "Where"), rows, noun="finding", share=8_000)
    judgement = recording.judgement
    if judgement is None or judgement.baseline is None:
        return
    if judgement.accepted:
        page.add(f"### Accepted by {code(judgement.baseline)}")
        rows = (_finding_row(finding) for finding in judgement.accepted)
        page.table(("Rule", "What", "Where"), rows, noun="accepted finding", share=4_000)
    if judgement.fixed:
        page.add(f"### Fixed, and still in {code(judgement.baseline)}")
        rows = ((code(entry),) for entry in judgement.fixed)
        page.table(("Entry",), rows, noun="fixed entry", share=2_000)


def _finding_row(finding: Finding, remark: str = "") -> tuple[str, ...]:
    note = f" ({prose(remark)})" if remark else ""
    where = code(f"{finding.file}:{finding.line or ''}".rstrip(":")) if finding.file else ""
    return (code(finding.rule), prose(finding.message, width=200) + note, where)


def _codes(page: Page, recording: Recording) -> None:
    reports = list(_flat(code_reports(recording)))
    if not reports:
        return
    page.add("### Code objects")
    columns = ("Code object", "Compiled:", "Recompiles:", "Attempts that failed:", "Guards:", "Seconds:", "Where")
    page.table(columns, (_code_row(report, depth) for report, depth in reports), noun="code object", share=9_000)
    groups = [(report, group) for report, _ in reports for group in report.changes]
    if groups:
        page.add("### Recompiles")
        rows = (row for report, group in groups for row in _cause_rows(report, group))
        page.table(_CAUSE_COLUMNS, rows, noun="cause", share=14_000)
        advice = {cause.advice: kind_of(cause) for _, group in groups for cause in group.causes if cause.advice}
        page.fold(
            "What helps",
            [bullets([f"{code(kind)} {prose(text, width=240)}"]) for text, kind in advice.items()],
            noun="piece of advice",
        )


def _flat(reports: tuple[CodeReport, ...], depth: int = 0) -> Iterator[tuple[CodeReport, int]]:
    for report in reports:
        yield report, depth
        yield from _flat(report.children, depth + 1)


def _code_row(report: CodeReport, depth: int) -> tuple[str, ...]:
    outcomes = report.outcomes
    bad = [f"{number} {outcome}" for outcome, number in sorted(outcomes.items()) if outcome != "empty"]
    owner = f"{code(report.code.owner)} via " if report.code.owner else ""
    return (
        f"{'↳ ' * min(depth, 4)}{owner}{code(report.code.qualname)}" + (" (target)" if report.target else ""),
        str(len(report.compiled)),
        str(len(report.recompiles)),
        ", ".join(bad) or "0",
        report.guards or "",
        f"{report.seconds:.2f}",
        code(f"{report.code.file}:{report.code.line}"),
    )


def _cause_rows(report: CodeReport, group: ChangeGroup) -> Iterator[tuple[str, ...]]:
    members = group.members
    many = f" x{len(members)}" if len(members) > 1 else ""
    name, ids = code(report.code.owner or report.code.qualname), f"{code(members[0].id)}{many}"
    driven = "/".join(dict.fromkeys(_YES_NO[recompile.shape_driven] for recompile in group.recompiles))
    moved = ", ".join(dict.fromkeys(axes_note(recompile.axes) or "" for recompile in group.recompiles))
    if not group.causes:
        yield (name, ids, "unknown", "", "no guard could be examined", driven, prose(moved), "")
        return
    cause, pairs = group.causes[0], group.transitions
    values = ", ".join(f"{code(old, width=60)} → {code(values_alone(old, new), width=60)}" for old, new in pairs[:3])
    more = f", {len(pairs) - 3} more" if len(pairs) > 3 else ""  # noqa: PLR2004 (as many as the line above)
    more += f", at {group.places} places" if group.places > 1 else ""
    where = code(place(cause.where)) if cause.where else ""
    yield (name, ids, code(kind_of(cause)), code(cause.source), values + more, driven, prose(moved), where)


def _breaks(page: Page, recording: Recording) -> None:
    sites = sorted(merge_breaks(recording.graph_breaks), key=lambda site: -site.events)
    if not sites:
        return
    page.add("### Graph breaks")
    rows = (
        (
            code(f"{site.file}:{site.line}"),
            code(site.kind),
            code(site.registry_id or ""),
            str(site.events),
            "**skipped**" if site.skips_frame else "continues",
            code(site.text.strip()) if site.text else prose(site.reason, width=160),
        )
        for site in sites
    )
    page.table(("Site", "Kind", "Id", "Events:", "Frame", "Line"), rows, noun="graph break", share=12_000)


def _fallbacks(page: Page, recording: Recording) -> None:
    if not recording.fallbacks:
        return
    names = display_names(recording)
    page.add("### Eager fallbacks")
    rows = (
        (
            code(names.get(fallback.code, fallback.code)),
            code(fallback.kind),
            "not counted" if fallback.calls is None else str(fallback.calls),
            prose(gist(fallback.detail), width=160),
        )
        for fallback in recording.fallbacks
    )
    page.table(("Code object", "Kind", "Calls:", "Detail"), rows, noun="eager fallback", share=6_000)


def _targets(page: Page, recording: Recording) -> None:
    if not recording.targets:
        return
    page.add("### Targets")
    rows = (
        (code(target.selector), target.status.replace("_", " "), str(target.compiles), str(target.resumed))
        for target in recording.targets
    )
    columns = ("Target", "Status", "Compiled:", "Of resume functions:")
    page.table(columns, rows, noun="target", share=4_000)


def _sweeps(page: Page, recording: Recording) -> None:
    for sweep in recording.sweeps:
        page.add(f"### Sweep of {prose(sweep_title(sweep), width=120)}", name="a sweep")
        rows = ((code(line.axis), prose(line.values), prose(line.verdict)) for line in axis_lines(recording, sweep))
        page.table(("Axis", "Values", "Result"), rows, noun="axis line", share=4_000)
        notes = [*(f"warning: {warning}" for warning in sweep.warnings), *error_lines(sweep), parity_line(sweep)]
        page.add(bullets(prose(note) for note in notes[-8:]), name="notes on a sweep")


def _config(page: Page, recording: Recording) -> None:
    settings = [f"{code(name)} = {code(repr(value))}" for name, value in sorted(recording.meta.config.items())]
    page.fold("Configuration of Dynamo", [bullets([setting]) for setting in settings], noun="setting")


def _compilations(page: Page, recording: Recording) -> None:
    names = display_names(recording)
    lines = (bullets([_compilation(compilation, names)]) for compilation in recording.compilations)
    total = count(len(recording.compilations), "attempt")
    page.fold(f"Every compilation in order ({total})", lines, noun="compilation")


def _compilation(compilation: Compilation, names: dict[str, str]) -> str:
    at = f", at {code(point_text(compilation.point))}" if compilation.point else ""
    guards = "" if compilation.guards is None else f", {compilation.guards} guards"
    error = f": {prose(f'{compilation.error.type}: {gist(compilation.error.message)}')}" if compilation.error else ""
    name = code(names.get(compilation.code, compilation.code))
    return f"{code(compilation.id)} {compilation.outcome} {name}, {seconds(compilation.seconds)}{guards}{at}{error}"
