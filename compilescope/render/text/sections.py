"""The other parts of the text report: findings, targets, graph breaks, eager fallbacks, and what to do next."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from compilescope.analysis.summary import NAMES_SHOWN, display_names, gist, listed
from compilescope.render.judgement import remark_on
from compilescope.render.next_steps import next_steps
from compilescope.render.text.layout import Block, Line, Section, styled
from compilescope.render.words import clip_path, place, plain
from compilescope.storage import merge_breaks
from compilescope.wording import count

if TYPE_CHECKING:
    from compilescope.record import CodeObject, Fallback, Finding, GraphBreak, Recording, Target, TargetStatus
    from compilescope.render.options import Options

_SETTLED: Final = 5
"""Lines for accepted or fixed findings on one screen."""
_PATH: Final = 40
_ALARMING: Final[tuple[TargetStatus, ...]] = ("never_reached", "skipped", "cached")
"""Target states for which an alarm names the first few targets."""


def findings_sections(recording: Recording, *, every: bool, more: str) -> tuple[Section, ...]:
    """Return the findings, those that the baseline accepts, and its fixed entries."""
    found = (_finding(finding, "red", remark_on(finding, recording)) for finding in recording.findings)
    failing = Section("Findings", "finding", tuple(found))
    judgement = recording.judgement
    if judgement is None or judgement.baseline is None:
        return (failing,)
    accepted = tuple(_finding(finding, "yellow") for finding in judgement.accepted)
    fixed = tuple(Block((styled("  ", (entry, "green"), hang=9),)) for entry in judgement.fixed)
    if not every:
        accepted, fixed = _few(accepted, "accepted", more), _few(fixed, "fixed", more)
    return (
        failing,
        Section(f"Accepted by {judgement.baseline}", "accepted finding", accepted),
        Section(f"Fixed, and still in {judgement.baseline}", "fixed finding", fixed),
    )


def _finding(finding: Finding, color: str, remark: str = "") -> Block:
    where = "" if finding.file is None else f"  {finding.file}" + (f":{finding.line}" if finding.line else "")
    note = f"  ({remark})" if remark else ""
    return Block((styled("  ", (finding.rule, color), (where, "dim"), f"  {finding.message}", (note, "dim"), hang=9),))


def _few(blocks: tuple[Block, ...], sort: str, more: str) -> tuple[Block, ...]:
    """Keep accepted and fixed findings from filling the screen."""
    if len(blocks) <= _SETTLED:
        return blocks
    said = f"... and {len(blocks) - _SETTLED + 1} more {sort} findings: {more} shows all"
    return (*blocks[: _SETTLED - 1], Block((styled("  ", (said, "yellow")),)))


def targets_section(recording: Recording, *, every: bool) -> Section:
    """Return the outcome of the targets; without ``every``, only of those that no other part of the report names."""
    names = display_names(recording)
    counts = Counter(target.status for target in recording.targets)
    named = {"compiled", *(status for status in _ALARMING if counts[status] <= NAMES_SHOWN)}
    shown = [target for target in recording.targets if every or target.status not in named]
    order = ("never_reached", "skipped", "cached", "inlined", "compiled")
    shown.sort(key=lambda target: order.index(target.status))
    return Section("Targets", "target", tuple(Block((_target(target, names),)) for target in shown))


def _target(target: Target, names: dict[str, str]) -> Line:
    into = names.get(target.inlined_into or "", target.inlined_into)
    resumed = f" and {count(target.resumed, 'compilation')} of resume functions" if target.resumed else ""
    outcome = {
        "compiled": f"{count(target.compiles, 'compilation')}{resumed}",
        "inlined": f"inlined into {into}" if into else "inlined into another frame",
        "cached": "served by a cache entry compiled before the recording began",
        "skipped": "skipped by Dynamo: it runs eagerly",
        "never_reached": "never reached",
    }[target.status]
    wrong = target.status in ("never_reached", "skipped")
    return styled("  ", (target.selector, "bold"), "  ", (outcome, "red" if wrong else ""))


def breaks_section(recording: Recording, *, every: bool) -> Section:
    """Return the graph breaks, one line per site, the most frequent first; with ``every``, whole paths."""
    sites = sorted(merge_breaks(recording.graph_breaks), key=lambda site: -site.events)
    blocks = tuple(Block((_break(site, full=every),), weight=site.events) for site in sites)
    return Section("Graph breaks", "site", blocks, weighed="event")


def _break(site: GraphBreak, *, full: bool) -> Line:
    quoted = f"  {site.text.strip()}" if site.text else f"  {site.reason}"
    where = plain(f"{site.file}:{site.line}")
    path = where if full else clip_path(where, _PATH)
    return styled(
        f"  {path}  ",
        (site.kind, "cyan"),
        f" {site.registry_id}" if site.registry_id else "",
        f"  {count(site.events, 'event')}",
        (", skips its frame", "red") if site.skips_frame else "",
        (f"  in {place(site.torch_where)}" if full and site.torch_where is not None else "", "dim"),
        (quoted, "dim"),
    )


def fallbacks_section(recording: Recording, *, every: bool) -> Section:
    """Return what ran outside any graph; with ``every``, details in full."""
    names = display_names(recording)
    # Eager calls of a shared wrapper are not counted per owner, so all its owners are named.
    names |= {code.id: _of_many(code) for code in recording.code_objects if code.owner and ", " in code.owner}
    order = sorted(recording.fallbacks, key=lambda fallback: -(fallback.calls or 0))
    return Section(
        "Eager fallbacks", "fallback", tuple(Block((_fallback(fallback, names, full=every),)) for fallback in order)
    )


def _of_many(code: CodeObject) -> str:
    owners = (code.owner or "").split(", ")
    return f"{code.qualname.partition('.<locals>')[0]}, shared by {listed(owners)}"


def _fallback(fallback: Fallback, names: dict[str, str], *, full: bool) -> Line:
    calls = "calls not counted" if fallback.calls is None else count(fallback.calls, "call")
    detail = fallback.detail if full else gist(fallback.detail)
    return styled(
        "  ",
        (names.get(fallback.code, fallback.code), "bold"),
        "  ",
        (fallback.kind, "red"),
        f"  {calls}",
        (f"  {detail}", "dim"),
    )


def next_line(recording: Recording, options: Options, *, hints_left_out: bool = False) -> tuple[Line, ...]:
    """Return what to do next: one line, or none if there is nothing to investigate."""
    steps = next_steps(recording, options, hints_left_out=hints_left_out) if options.steps else ()
    return (styled(("Next: ", "bold"), " | ".join(steps), hang=6, whole=True),) if steps else ()
