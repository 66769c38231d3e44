"""What must hold before any limit means something: the run ended well, and the budget's targets were recorded.

Every function here fails closed: what was not checked is a finding, never silence.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from compilescope.analysis import rules
from compilescope.analysis.summary import gist
from compilescope.gate.findings import finding
from compilescope.gate.selection import matches
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from compilescope.analysis.rules import Rule
    from compilescope.gate.budget import Budget
    from compilescope.gate.selection import Scope
    from compilescope.record import Finding, Recording, Target, TargetStatus

_SEEN_NOT: Final[Mapping[TargetStatus, tuple[Rule, str]]] = {
    "never_reached": (rules.NEVER_REACHED, "was never reached"),
    "inlined": (rules.INLINED, "has no graph of its own: it was inlined into"),
    "cached": (rules.CACHED, "was served by a cache entry compiled before the recording began"),
    "skipped": (rules.SKIPPED, "was skipped by Dynamo and ran eagerly"),
    "compiled": (rules.NEVER_REACHED, "is reported as compiled, but no compilation of it was recorded"),
}


def run_findings(recording: Recording) -> Iterator[Finding]:
    """Yield what went wrong with the workload itself."""
    run = recording.meta.run
    if run is not None and run.status != "ok" and not (run.status == "exited" and run.exit_code == 0):
        ended = "it was interrupted" if run.status == "interrupted" else f"it {run.status}"
        said = gist(run.error) if run.error else ended
        yield finding(rules.RUN_FAILED, f"The workload did not end well: {said}.")
    for sweep in recording.sweeps:
        if not sweep.completed or not sweep.points:
            ran = count(len(sweep.points), "point")
            yield finding(rules.SWEEP_CUT, f"The sweep of {sweep.workload} is incomplete: it ended after {ran}.")
        for axis, values in sweep.axes.items():
            visited = {repr(point.values.get(axis)) for point in sweep.points}
            for value in (candidate for candidate in values if sweep.points and repr(candidate) not in visited):
                yield finding(rules.SWEEP_CUT, f"The sweep of {sweep.workload} never ran {axis}={value}.")
        for point in sweep.points:
            if point.status != "ok":
                at = ", ".join(f"{axis}={value}" for axis, value in point.values.items())
                why = gist(point.error) if point.error else "no message"
                yield finding(rules.POINT_FAILED, f"{sweep.workload} raised at {at or 'its only point'}: {why}")


def vacuous_findings(scope: Scope, budget: Budget) -> Iterator[Finding]:
    """Yield what should have been compiled and was not."""
    if not scope.recording.compiled:
        attempts = [compilation for compilation in scope.recording.compilations if compilation.outcome != "empty"]
        error = next((compilation.error for compilation in attempts if compilation.error is not None), None)
        tried = f"{count(len(attempts), 'attempt')} made no graph" if attempts else "Dynamo saw no frame"
        why = f" First error: {error.type}: {gist(error.message)}" if error else ""
        yield finding(rules.NOTHING_COMPILED, f"Nothing was compiled: {tried}.{why}")
    else:
        yield from _idle_sweeps(scope.recording)
    for name in scope.unknown:
        if not _allowed(name, budget):
            message = f"The budget's target {name} is not a target of the recording, and no code of that name"
            yield finding(rules.UNKNOWN_TARGET, f"{message} was compiled; {scope.instead()}.")
    for target in scope.targets:
        if (target.status != "compiled" or target.compiles < 1) and not _allowed(target.selector, budget):
            yield _vacuous(target, scope)
        elif (held := scope.recorded(target)) < target.compiles:
            said = f"{count(target.compiles, 'compilation')} of target {target.selector}, and holds {held}"
            yield finding(rules.NOT_A_NUMBER, f"The recording reports {said}.")


def _idle_sweeps(recording: Recording) -> Iterator[Finding]:
    """Yield the sweeps in which nothing was compiled though others compiled something."""
    points = [compilation.point for compilation in recording.compiled if compilation.point is not None]
    for sweep in recording.sweeps:
        if sweep.points and not any(point.values in points for point in sweep.points):
            yield finding(rules.NOTHING_COMPILED, f"Nothing was compiled in the sweep of {sweep.workload}.")


def _allowed(name: str, budget: Budget) -> bool:
    return any(matches(pattern, (name,)) for pattern in budget.allow_uncompiled)


def _vacuous(target: Target, scope: Scope) -> Finding:
    rule, said = _SEEN_NOT[target.status]
    if target.status == "inlined":
        into = "another frame" if target.inlined_into is None else scope.name(target.inlined_into)
        said = f"{said} {into}"
    code = next((scope.codes[identity] for identity in target.codes if identity in scope.codes), None)
    return finding(rule, f"Target {target.selector} {said}; {scope.instead()}.", code=code)


def blind_findings(scope: Scope, budget: Budget) -> Iterator[Finding]:
    """Yield what the budget limits and the recording does not hold."""
    recording = scope.recording
    if not recording.meta.counts_runs and "*" not in budget.allow_fallbacks:
        yield finding(rules.RUNS_NOT_COUNTED, "Calls were not counted, so eager calls could not be detected.")
    if budget.no_shape_recompile and recording.sweeps and all(len(sweep.points) < 2 for sweep in recording.sweeps):  # noqa: PLR2004 (one point varies nothing)
        message = "Shape-driven recompiles are forbidden, but no sweep has more than one point."
        yield finding(rules.NOT_VARIED, message)
    if budget.max_own_graph_breaks is not None and recording.compilations:
        files = {code.file for code in recording.code_objects} | {site.file for site in recording.graph_breaks}
        if not any(budget.is_own(file) for file in files):
            paths = ", ".join(budget.own)
            message = f"Dynamo saw no code in {paths}, so nothing is known about graph breaks there"
            yield finding(rules.OWN_UNSEEN, f"{message}; {scope.instead()}.")
    yield from _uncounted(scope, budget)


def _uncounted(scope: Scope, budget: Budget) -> Iterator[Finding]:
    compiled = scope.compilations()
    for limit, what, missing in (
        (budget.min_operators, "Operators", sum(compilation.operators is None for compilation in compiled)),
        (budget.max_guards, "Guards", sum(compilation.guards is None for compilation in compiled)),
    ):
        if limit is not None and missing:
            yield finding(rules.NOT_COUNTED, f"{what} were not counted for {count(missing, 'compilation')}.")
    if budget.max_relative_l2 is not None:
        points = [point for sweep in scope.recording.sweeps for point in sweep.points]
        missing = sum(point.parity is None for point in points if point.status == "ok")
        if missing or not points:
            where = f"at {count(missing, 'point')} of {len(points)}" if points else "as there was no sweep"
            yield finding(rules.NOT_COUNTED, f"The compiled result was not compared with eager {where}: use --parity.")


def number_findings(recording: Recording) -> Iterator[Finding]:
    """Yield impossible numbers."""
    for what, value in (*_counts(recording), *_measures(recording)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            yield finding(rules.NOT_A_NUMBER, f"{what} is {value}.")
    for site in recording.graph_breaks:
        if site.events < 1:
            yield finding(
                rules.NOT_A_NUMBER, f"The graph break at {site.file}:{site.line} was hit {site.events} times."
            )


def _counts(recording: Recording) -> Iterator[tuple[str, float | None]]:
    for compilation in recording.compilations:
        yield f"The number of guards of compilation {compilation.id}", compilation.guards
        yield f"The number of operators of compilation {compilation.id}", compilation.operators
    for fallback in recording.fallbacks:
        yield f"The number of eager calls of {fallback.code}", fallback.calls
    for target in recording.targets:
        yield f"The number of compilations of target {target.selector}", target.compiles
        yield f"The number of compilations of resume functions of target {target.selector}", target.resumed


def _measures(recording: Recording) -> Iterator[tuple[str, float | None]]:
    for compilation in recording.compilations:
        yield f"The time of compilation {compilation.id}", compilation.seconds
    for sweep in recording.sweeps:
        for place, point in enumerate(sweep.points, start=1):
            at = f"at point {place} of {sweep.workload}"
            yield f"The time {at}", point.seconds
            if point.parity is not None:
                yield f"The largest difference from eager {at}", point.parity.max_abs
                yield f"The relative difference from eager {at}", point.parity.relative_l2
