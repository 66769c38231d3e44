"""What every report says first: totals, alarms, a verdict, and one sentence of validation.

Pure functions of a recording. Their texts are plain: each renderer escapes them for its format.
Nothing here calls a run clean because of something that was not checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.analysis.cache_use import cache_uses
from compilescope.storage import merge_breaks
from compilescope.wording import count, listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from compilescope.record import CodeObject, Compilation, Recording, Sweep, Target

NAMES_SHOWN: Final = 3
"""How many names a sentence lists before it says how many more there are."""


_EXPLANATION: Final = re.compile(r"\s+Explanation:")


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of a recording.

    Attributes:
        compiled: compilations that produced a cache entry.
        codes: code objects among them that are not resume functions.
        resumes: resume functions among them.
        recompiles: compilations of code that already had an entry.
        shape_driven: recompiles that a graph for general shapes would have avoided.
        unjudged: recompiles for which that was not determined.
        unexplained: recompiles for which no guard could be examined.
        refused: attempts that hit the recompile limit.
        forbidden: calls for which a stance or ``error_on_recompile`` forbade a recompile.
        failed: attempts that ended in another error.
        skipped: attempts after which the frame runs eagerly.
        breaks: graph-break sites.
        events: how often tracing stopped at them.
        fallbacks: eager fallbacks.
        seconds: wall time of all attempts.
    """

    compiled: int
    codes: int
    resumes: int
    recompiles: int
    shape_driven: int
    unjudged: int
    unexplained: int
    refused: int
    forbidden: int
    failed: int
    skipped: int
    breaks: int
    events: int
    fallbacks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that a reader must know before any number.

    Attributes:
        name: stable, for tests and filters.
        text: one sentence.
        wrong: False if nothing is known to be wrong and something was only not checked.
    """

    name: str
    text: str
    wrong: bool = True


def met_limit(compilation: Compilation) -> bool:
    """Whether the recompile limit refused the attempt (under ``fullgraph`` it raises)."""
    error = compilation.error
    return compilation.outcome == "limit" or (
        compilation.outcome == "failed" and error is not None and error.kind == "recompile_limit"
    )


def totals(recording: Recording) -> Totals:
    """Count what ``recording`` holds."""
    compiled = recording.compiled
    resumed = {code.id for code in recording.code_objects if code.resumes is not None}
    codes = {c.code for c in compiled}
    verdicts = [c.recompile for c in recording.recompiles if c.recompile is not None]
    sites = merge_breaks(recording.graph_breaks)
    refused = sum(met_limit(c) for c in recording.compilations)
    return Totals(
        compiled=len(compiled),
        codes=len(codes - resumed),
        resumes=len(codes & resumed),
        recompiles=len(verdicts),
        shape_driven=sum(r.shape_driven is True for r in verdicts),
        unjudged=sum(r.shape_driven is None for r in verdicts),
        unexplained=sum(r.closest is None and not r.causes for r in verdicts),
        refused=refused,
        forbidden=sum(c.outcome == "refused" for c in recording.compilations),
        failed=sum(c.outcome in ("failed", "limit") for c in recording.compilations) - refused,
        skipped=sum(c.outcome == "skipped" for c in recording.compilations),
        breaks=len(sites),
        events=sum(site.events for site in sites),
        fallbacks=len(recording.fallbacks),
        seconds=sum(c.seconds for c in recording.compilations),
    )


def listed(names: Iterable[str], *, shown: int = NAMES_SHOWN) -> str:
    """Return distinct ``names`` as a phrase that stays short: ``a, b, c and 4 more``."""
    distinct = list(dict.fromkeys(names))
    rest = len(distinct) - shown
    return ", ".join(distinct[:shown]) + (f" and {rest} more" if rest > 0 else "")


def gist(message: str) -> str:
    """Return what an error says before Dynamo's standard explanation begins."""
    return _EXPLANATION.split(message.strip(), maxsplit=1)[0] or message


def display_names(recording: Recording) -> dict[str, str]:
    """Return what to call each code object."""
    return {code.id: display_name(code) for code in recording.code_objects}


def display_name(code: CodeObject) -> str:
    """Return what to call a code object: a shared wrapper goes by the class that it ran for."""
    wrapper, _, _ = code.qualname.partition(".<locals>")
    return f"{code.owner} via {wrapper}" if code.owner else code.qualname


def alarms(recording: Recording) -> tuple[Alarm, ...]:
    """Return the alarms: first what is wrong, then what was not checked."""
    found = (
        *_run_alarms(recording),
        *_nothing_alarms(recording),
        *_limit_alarms(recording),
        *_forbidden_alarms(recording),
        *_cache_alarms(recording),
        *_target_alarms(recording.targets),
        *_sweep_alarms(recording),
        *_blind_alarms(recording),
    )
    return tuple(sorted(found, key=lambda alarm: not alarm.wrong))


def _run_alarms(recording: Recording) -> Iterator[Alarm]:
    run = recording.meta.run
    if run is None or run.status == "ok":
        return
    if run.status == "raised":
        yield Alarm(
            "raised",
            f"The workload raised {gist(run.error or 'an exception')}; the report covers what ran before that.",
        )
    elif run.status == "interrupted":
        yield Alarm("interrupted", "The workload was interrupted: the report covers what ran before that.")
    else:
        how = gist(run.error or "sys.exit()") if run.exit_code is None else f"sys.exit({run.exit_code})"
        yield Alarm("exited", f"The workload ended with {how}.", wrong=run.exit_code != 0)


def _nothing_alarms(recording: Recording) -> Iterator[Alarm]:
    if recording.compiled:
        return
    attempts = [c for c in recording.compilations if c.outcome != "empty"]
    if not attempts:
        ran = listed(fallback.kind for fallback in recording.fallbacks)
        why = f"the calls ran eagerly ({ran})" if ran else "Dynamo saw no frame with anything to compile"
        yield Alarm("nothing_compiled", f"NOTHING WAS COMPILED: {why}.")
        return
    error = next((c.error for c in attempts if c.error is not None), None)
    why = f" First error: {error.type}: {gist(error.message)}" if error else ""
    yield Alarm(
        "nothing_compiled", f"NOTHING WAS COMPILED: {count(len(attempts), 'attempt')}, none produced a graph.{why}"
    )


def _limit_alarms(recording: Recording) -> Iterator[Alarm]:
    names = display_names(recording)
    refused = [c.code for c in recording.compilations if met_limit(c)]
    eager = [f for f in recording.fallbacks if f.kind == "recompile_limit"]
    codes = list(dict.fromkeys([*refused, *(f.code for f in eager)]))
    if not codes:
        return
    limits = {c.limit for c in recording.compilations if met_limit(c) and c.limit is not None}
    known = f" ({listing(map(str, sorted(limits)))})" if limits else ""
    text = f"The recompile limit{known} was hit by {listed(names.get(code, code) for code in codes)}"
    if eager:
        calls = [f.calls for f in eager if f.calls is not None]
        ran = f"{count(sum(calls), 'call')} ran eagerly" if len(calls) == len(eager) else "eager calls were not counted"
        yield Alarm("recompile_limit", f"{text}; from then on, calls that match no entry run eagerly: {ran}.")
    else:
        yield Alarm("recompile_limit", f"{text}: {count(len(refused), 'attempt')} to compile refused.")


def _forbidden_alarms(recording: Recording) -> Iterator[Alarm]:
    names = display_names(recording)
    refused = [c for c in recording.compilations if c.outcome == "refused"]
    if not refused:
        return
    first = refused[0].error
    by = "" if first is None else f" First: {gist(first.message)}"
    raised = count(len(refused), "call")
    text = f"{raised} of {listed(names.get(c.code, c.code) for c in refused)} needed a new graph and raised instead."
    yield Alarm("refused", f"{text}{by}")


def _cache_alarms(recording: Recording) -> Iterator[Alarm]:
    names = display_names(recording)
    full = {c.code for c in recording.compilations if met_limit(c)}
    for use in cache_uses(recording):
        name = names.get(use.code, use.code)
        if use.nearly_full and use.code not in full:
            then = "the next new input" if use.used >= use.limit else "the next new input but one"
            uses = f"{name} uses {use.used} of its {use.limit} cache entries"
            yield Alarm("nearly_full", f"{uses}: {then} runs eagerly, or raises under fullgraph.", wrong=False)
        if use.shared:
            limit = f"its limit of {use.limit} entries, {use.used} of them used"
            text = f"{listed(use.owners)} share one code object and {limit}"
            cure = (
                "torch.compile(..., isolate_recompiles=True) gives each its own limit, if this version of torch has it"
            )
            yield Alarm("shared_limit", f"{text}: {cure}.", wrong=False)


def _were(things: Sequence[str], noun: str) -> str:
    return f"{count(len(things), noun)} {'was' if len(things) == 1 else 'were'}"


def _target_alarms(targets: Sequence[Target]) -> Iterator[Alarm]:
    def having(status: str) -> list[str]:
        return [target.selector for target in targets if target.status == status]

    if missed := having("never_reached"):
        them = "it" if len(missed) == 1 else "them"
        yield Alarm(
            "never_reached",
            f"{_were(missed, 'target')} never reached, so any claim about {them} is vacuous: {listed(missed)}.",
        )
    if skipped := having("skipped"):
        yield Alarm(
            "target_skipped",
            f"{_were(skipped, 'target')} skipped by Dynamo and ran eagerly: {listed(skipped)}.",
        )
    if cached := having("cached"):
        yield Alarm(
            "target_cached",
            f"{_were(cached, 'target')} compiled before the recording began, so not recorded: {listed(cached)}.",
            wrong=False,
        )


def _sweep_alarms(recording: Recording) -> Iterator[Alarm]:
    cut = [sweep.workload for sweep in recording.sweeps if not sweep.completed]
    if cut:
        yield Alarm("sweep_cut", f"The sweep of {listed(cut)} was interrupted: later points were not run.")
    points = [point for sweep in recording.sweeps for point in sweep.points]
    bad = [point for point in points if point.status == "error"]
    if bad:
        error = next((f" First: {gist(point.error)}" for point in bad if point.error), "")
        yield Alarm("points_failed", f"{len(bad)} of {count(len(points), 'sweep point')} raised.{error}")


def _blind_alarms(recording: Recording) -> Iterator[Alarm]:
    unexplained = totals(recording).unexplained
    if unexplained:
        yield Alarm("unexplained", f"No guard could be examined for {count(unexplained, 'recompile')}.", wrong=False)
    if not recording.meta.counts_runs:
        yield Alarm("runs_not_counted", "Runs were not counted, so eager calls were not checked.", wrong=False)


def verdict(recording: Recording) -> str:
    """Return the counts in one line."""
    return _counts(recording, none="0", compilation="compilation")


def validation(recording: Recording) -> str:
    """Return one sentence to paste where a change must say how it was validated."""
    meta = recording.meta
    place = f"on {meta.device}, torch {meta.torch}, Python {meta.python}"
    swept = "".join(_swept(sweep) for sweep in recording.sweeps)
    sentence = f"{_counts(recording, none='no', compilation='graph')} {place}{swept}."
    wrong = [alarm for alarm in alarms(recording) if alarm.wrong]
    return f"Not valid as it stands ({wrong[0].name.replace('_', ' ')}): {sentence}" if wrong else sentence


def _swept(sweep: Sweep) -> str:
    axes = ", ".join(f"{axis} over {count(len(values), 'value')}" for axis, values in sweep.axes.items())
    return f"; swept {axes} ({count(len(sweep.points), 'point')})"


def _counts(recording: Recording, *, none: str, compilation: str) -> str:
    sums = totals(recording)
    if sums.compiled == 0:
        unknown = ", so nothing is known about recompiles, graph breaks and eager calls"
        parts = ["nothing was compiled" + ("" if recording.compilations or recording.fallbacks else unknown)]
    else:
        resumed = f" and {count(sums.resumes, 'resume function')}" if sums.resumes else ""
        parts = [f"{count(sums.compiled, compilation)} of {count(sums.codes, 'code object')}{resumed}"]
        parts.append(_number(sums.recompiles, "recompile", none) + _shape_note(sums))
    # If nothing was compiled, say only what was seen: a zero would mean nothing.
    if sums.compiled or sums.breaks:
        events = f" ({count(sums.events, 'event')})" if sums.events > sums.breaks else ""
        parts.append(_number(sums.breaks, "graph break", none) + events)
    if sums.compiled or sums.fallbacks:
        if recording.meta.counts_runs:
            parts.append(_number(sums.fallbacks, "eager fallback", none))
        else:
            parts.append(f"{count(sums.fallbacks, 'eager fallback')} seen (eager calls were not checked)")
    attempts = (
        (sums.refused, "refused by the recompile limit"),
        (sums.forbidden, "forbidden to recompile"),
        (sums.failed, "failed"),
        (sums.skipped, "skipped"),
    )
    parts += [f"{count(number, 'attempt')} {what}" for number, what in attempts if number]
    return ", ".join(parts)


def _number(number: int, noun: str, none: str) -> str:
    return count(number, noun) if number else f"{none} {noun}" + ("s" if none == "0" else "")


def _shape_note(sums: Totals) -> str:
    if sums.recompiles == 0:
        return ""
    if sums.recompiles == 1 and not sums.unjudged:
        return " (shape-driven)" if sums.shape_driven else " (not shape-driven)"
    known = sums.recompiles - sums.unjudged
    share = {0: "none", sums.recompiles: "all"}.get(sums.shape_driven, str(sums.shape_driven))
    notes = [f"{share if not sums.unjudged else sums.shape_driven} shape-driven"] if known else []
    if sums.unjudged:
        notes.append(f"unknown whether shape-driven for {sums.unjudged}")
    return f" ({'; '.join(notes)})"
