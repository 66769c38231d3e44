"""Checks what was recorded against a budget's limits."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from compilescope.analysis import rules
from compilescope.analysis.kinds import KINDS
from compilescope.gate.findings import finding
from compilescope.gate.selection import stable_file
from compilescope.record import Location
from compilescope.storage import merge_breaks
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from compilescope.analysis.rules import Rule
    from compilescope.gate.budget import Budget
    from compilescope.gate.selection import Group, Scope
    from compilescope.record import Compilation, Failure, Finding, GraphBreak, Recording

_UNKNOWN: Final = frozenset({"unknown", "guard_error"})
_TORCH: Final = "torch/"
_NAMED: Final = 3
"""Causes of one recompile that a finding names."""


def compile_findings(scope: Scope, budget: Budget) -> Iterator[Finding]:
    """Yield findings about how often the targets were compiled, and why they were recompiled."""
    for group in scope.groups:
        made = len(group.compilations)
        if budget.max_compiles is not None and made > budget.max_compiles:
            message = f"{group.name} was compiled {_times(made)}, {budget.max_compiles} allowed"
            yield finding(rules.TOO_MANY_COMPILES, message, key=group.key, code=group.code, amount=made)
        recompiles = [compilation for compilation in group.compilations if compilation.recompile is not None]
        yield from _unexplained(group, recompiles, budget)
        yield from _shape_driven(group, recompiles, budget)
        if budget.no_shape_recompile:
            yield from _started_over(group, scope.recording)
        yield from _too_many(group, recompiles, budget)


def _unexplained(group: Group, recompiles: Iterable[Compilation], budget: Budget) -> Iterator[Finding]:
    for compilation in recompiles:
        if not budget.allow_unknown and (
            not _kinds(compilation) or any(kind not in KINDS or kind in _UNKNOWN for kind in _kinds(compilation))
        ):
            message = f"{group.name} was recompiled ({compilation.id}) for an unknown reason: {_because(compilation)}"
            yield finding(rules.UNKNOWN_CAUSE, message, code=group.code, where=_where(compilation))


def _shape_driven(group: Group, recompiles: Sequence[Compilation], budget: Budget) -> Iterator[Finding]:
    if not budget.no_shape_recompile:
        return
    for compilation in recompiles:
        if compilation.recompile is not None and compilation.recompile.shape_driven is None:
            message = (
                f"{group.name} was recompiled ({compilation.id}), but it was not determined whether shapes drove it"
            )
            yield finding(rules.NOT_ANALYSED, message, code=group.code, where=_where(compilation))
    driven = [
        compilation
        for compilation in recompiles
        if compilation.recompile is not None and compilation.recompile.shape_driven
    ]
    for alike in _by_cause(driven):
        message = f"{group.name} was recompiled {_times(len(alike))} as shapes changed: {_because(alike[0])}"
        yield _about(rules.SHAPE_RECOMPILE, message, group, alike)


def _started_over(group: Group, recording: Recording) -> Iterator[Finding]:
    """Yield a target that was compiled again in an emptied cache, where no recompile can show.

    Each sweep empties the cache before its first point, and each recording that was merged began with an empty one.
    """
    expected = max(recording.meta.merged, len(recording.sweeps))
    for code in dict.fromkeys(compilation.code for compilation in group.compilations):
        first = [
            compilation
            for compilation in group.compilations
            if compilation.code == code
            and compilation.recompile is None
            and (compilation.point is not None or not recording.sweeps)
        ]
        # Dynamo counts from 0 again after a reset, and a recording appends #n to a repeated id.
        again = sum("#" in compilation.id for compilation in first)
        if again + (again < len(first)) > expected:
            message = f"The cache was emptied between two compilations of {group.name} (reset() or explain())"
            yield finding(rules.NOT_VARIED, f"{message}, so no recompile could be detected.", code=group.code)
            return


def _too_many(group: Group, recompiles: Sequence[Compilation], budget: Budget) -> Iterator[Finding]:
    for kind, limit in sorted(budget.max_recompiles_by_kind.items()):
        of_kind = [compilation for compilation in recompiles if kind in _kinds(compilation)]
        if len(of_kind) > limit:
            said = f"{group.name} was recompiled {_times(len(of_kind))} for {kind}, {limit} allowed"
            for alike in _by_cause(of_kind):
                yield _about(rules.TOO_MANY_OF_KIND, said + _share(alike, of_kind), group, alike)
    # Recompiles whose kinds all have limits of their own were counted there.
    rest = [
        compilation
        for compilation in recompiles
        if not _kinds(compilation) or not _kinds(compilation) <= budget.max_recompiles_by_kind.keys()
    ]
    if budget.max_recompiles is not None and len(rest) > budget.max_recompiles:
        said = f"{group.name} was recompiled {_times(len(rest))}, {budget.max_recompiles} allowed"
        for alike in _by_cause(rest):
            yield _about(rules.TOO_MANY_RECOMPILES, said + _share(alike, rest), group, alike)


def _about(rule: Rule, message: str, group: Group, alike: Sequence[Compilation]) -> Finding:
    """Return one finding for recompiles that have the same causes."""
    signature = ", ".join(f"{kind} of {source}" for kind, source in _signature(alike[0])) or "unknown"
    key = f"{group.key}: {signature}"
    return finding(rule, message, key=key, code=group.code, where=_where(alike[0]), amount=len(alike))


def _share(alike: Sequence[Compilation], whole: Sequence[Compilation]) -> str:
    share = ": " if len(alike) == len(whole) else f"; {_times(len(alike))} for "
    return share + _because(alike[0])


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _causes(compilation: Compilation) -> tuple[Failure, ...]:
    return () if compilation.recompile is None else compilation.recompile.causes


def _kinds(compilation: Compilation) -> frozenset[str]:
    return frozenset(cause.kind or "unknown" for cause in _causes(compilation))


def _signature(compilation: Compilation) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({(cause.kind or "unknown", cause.source) for cause in _causes(compilation)}))


def _by_cause(recompiles: Iterable[Compilation]) -> list[list[Compilation]]:
    found: dict[tuple[tuple[str, str], ...], list[Compilation]] = {}
    for compilation in recompiles:
        found.setdefault(_signature(compilation), []).append(compilation)
    return list(found.values())


def _because(compilation: Compilation) -> str:
    """Say why the closest entry did not match."""
    causes = _causes(compilation)
    if not causes:
        return "no guard of an older entry could be examined"
    named = [
        f"{cause.kind or 'unknown'} of {cause.source} ({cause.expected} -> {cause.actual})" for cause in causes[:_NAMED]
    ]
    more = len(causes) - len(named)
    axes = () if compilation.recompile is None else compilation.recompile.axes or ()
    changed = f", as {' and '.join(axes)} changed" if axes else ""
    return ", ".join(named) + (f" and {more} more" if more else "") + changed


def _where(compilation: Compilation) -> Location | None:
    """Return the line that installed a guard of the causes; a line inside torch would help nobody."""
    places = [cause.where for cause in _causes(compilation) if cause.where is not None]
    return next((place for place in places if not place.file.startswith(_TORCH)), None)


def break_findings(scope: Scope, budget: Budget) -> Iterator[Finding]:
    """Yield every graph break if there are more than the budget allows, each site once."""
    sites = merge_breaks(scope.recording.graph_breaks)
    own = [site for site in sites if budget.is_own(site.file)]
    reported: set[int] = set()
    if budget.max_own_graph_breaks is not None and len(own) > budget.max_own_graph_breaks:
        reported = {id(site) for site in own}
        said = f"{count(len(own), 'graph break')} in own code, {budget.max_own_graph_breaks} allowed"
        for site in own:
            yield _break(rules.OWN_GRAPH_BREAK, said, site, scope)
    if budget.max_graph_breaks is not None and len(sites) > budget.max_graph_breaks:
        said = f"{count(len(sites), 'graph break')}, {budget.max_graph_breaks} allowed"
        for site in sites:
            if id(site) not in reported:
                yield _break(rules.GRAPH_BREAK, said, site, scope)


def _break(rule: Rule, said: str, site: GraphBreak, scope: Scope) -> Finding:
    named = f"{site.kind} {site.registry_id}" if site.registry_id else site.kind
    line = (site.text or site.reason).strip()
    skips = ", and its frame runs eagerly" if site.skips_frame else ""
    message = f"{said}: {named}, {count(site.events, 'event')}{skips}: {line}"
    key = f"{site.kind} in {stable_file(site.file)}:{site.function or ''}: {site.text or site.registry_id or site.kind}"
    where = Location(file=site.file, line=site.line)
    return finding(rule, message, key=key, code=scope.codes.get(site.code), where=where)


def size_findings(scope: Scope, budget: Budget) -> Iterator[Finding]:
    """Yield findings about the size of the compiled code, its compile time, and its difference from eager."""
    if budget.max_guards is not None:
        for group in scope.groups:
            most = max((compilation.guards or 0 for compilation in group.compilations), default=0)
            if most > budget.max_guards:
                message = f"A cache entry of {group.name} has {most} guards, {budget.max_guards} allowed"
                yield finding(rules.TOO_MANY_GUARDS, message, key=group.key, code=group.code, amount=most)
    if budget.min_operators is not None:
        captured = _operators(scope.compilations())
        if captured < budget.min_operators:
            message = f"The graphs hold {count(captured, 'operator')}, at least {budget.min_operators} expected"
            missing = budget.min_operators - captured
            yield finding(rules.TOO_FEW_OPERATORS, message, key="operators missing", amount=missing)
    seconds = sum(compilation.seconds for compilation in scope.recording.compilations)
    if budget.max_compile_seconds is not None and not seconds <= budget.max_compile_seconds:
        message = f"Compiling took {seconds:.1f} s, {budget.max_compile_seconds:g} s allowed"
        yield finding(rules.TOO_SLOW, message)
    yield from _distance(scope.recording, budget.max_relative_l2)


def _operators(compiled: Iterable[Compilation]) -> int:
    """Add up the largest graph of each code object: a recompile adds no operators to the model."""
    largest: dict[str, int] = {}
    for compilation in compiled:
        largest[compilation.code] = max(largest.get(compilation.code, 0), compilation.operators or 0)
    return sum(largest.values())


def _distance(recording: Recording, limit: float | None) -> Iterator[Finding]:
    if limit is None:
        return
    for sweep in recording.sweeps:
        # Written so that NaN counts as too far.
        parities = [(point, point.parity) for point in sweep.points if point.parity is not None]
        far = [(point, parity.relative_l2) for point, parity in parities if not parity.relative_l2 <= limit]
        if far:
            worst, distance = max(far, key=operator.itemgetter(1))
            at = ", ".join(f"{axis}={value}" for axis, value in worst.values.items())
            message = f"{sweep.workload} differs from eager by {distance:.2e} (relative L2) at {at}, {limit:g} allowed"
            yield finding(rules.TOO_FAR, f"{message}; {count(len(far), 'point')} of {len(sweep.points)} too far")
