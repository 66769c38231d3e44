"""Checks a recording against the claim of a mark or a helper. Pure: no pytest, and no torch for patterns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from compilescope.analysis import rules
from compilescope.analysis.summary import display_name
from compilescope.gate.budget import Budget
from compilescope.gate.findings import finding
from compilescope.gate.judge import judge
from compilescope.plugin.marks import Claim
from compilescope.wording import count, listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope.record import CodeObject, Compilation, Fallback, Finding, Recording, Target

FREEZE: Final = Claim("freeze")
"""The claim of ``compilescope.freeze()``."""
_TOLD: Final = 2
"""Causes of one compilation that a finding names."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """One claim and the findings against it."""

    claim: Claim
    findings: tuple[Finding, ...]

    @property
    def status(self) -> Literal["held", "failed", "broken", "fixed"]:
        """Whether the claim holds; ``broken`` and ``fixed`` if it was not expected to."""
        if self.claim.broken is None:
            return "failed" if self.findings else "held"
        if not self.findings:
            return "fixed"
        # `broken` excuses what a baseline could accept: a limit that is exceeded, never missing data.
        return "broken" if all(finding.key is not None for finding in self.findings) else "failed"


def rule(recording: Recording, claim: Claim, targets: Sequence[Target]) -> Ruling:
    """Check ``recording`` against ``claim``; ``targets`` are the outcomes of its targets."""
    distinct = tuple(_distinct(targets))
    budget = Budget(targets=tuple(target.selector for target in distinct), **claim.limits)
    found = judge(replace(recording, targets=distinct), budget)
    if budget.no_shape_recompile:
        found = (*found, *_not_varied(distinct))
    return Ruling(claim, found)


def _not_varied(targets: Sequence[Target]) -> Iterator[Finding]:
    """Yield the targets that were called with only one set of sizes: no shape could recompile them."""
    for target in targets:
        if target.status == "compiled" and target.varied is False:
            message = f"Every call of {target.selector} had the same sizes, so no recompile could be detected"
            yield finding(rules.NOT_VARIED, f"{message}; call it with other sizes too.")


def _distinct(targets: Sequence[Target]) -> Iterator[Target]:
    """Distinguish two classes of one name: a budget knows targets by their names."""
    seen: dict[str, int] = {}
    for target in targets:
        times = seen[target.selector] = seen.get(target.selector, 0) + 1
        yield target if times == 1 else replace(target, selector=f"{target.selector} ({times})")


@dataclass(frozen=True, slots=True)
class Frozen:
    """The state at the end of a warm-up.

    Attributes:
        recording: until then.
        served: how often a graph had run.
    """

    recording: Recording
    served: int


def rule_frozen(recording: Recording, frozen: Frozen, served: int) -> Ruling:
    """Check that since the freeze nothing was compiled or ran eagerly, and some graph ran.

    Args:
        recording: of the whole test.
        frozen: the state at the end of the warm-up.
        served: how often a graph has run by now.
    """
    warm = len(frozen.recording.compilations)
    before, after = recording.compilations[:warm], recording.compilations[warm:]
    if not any(compilation.outcome == "compiled" for compilation in before):
        cold = finding(rules.NOTHING_COMPILED, "Nothing was compiled before freeze(), so nothing was warmed up.")
        return Ruling(FREEZE, (cold,))
    codes = {code.id: code for code in recording.code_objects}
    late = [_late(compilation, codes.get(compilation.code)) for compilation in after if compilation.outcome != "empty"]
    eager = [_eager(fallback, codes.get(fallback.code)) for fallback in _more_eager(recording, frozen.recording)]
    found = (*late, *eager)
    if not found and served <= frozen.served:
        found = (finding(rules.NOTHING_COMPILED, "Nothing that was compiled was called after freeze()."),)
    return Ruling(FREEZE, found)


def _more_eager(recording: Recording, before: Recording) -> Iterator[Fallback]:
    """Yield what ran eagerly since then, with the calls since then; calls from a compiled frame are not counted."""
    known = {(fallback.code, fallback.kind): fallback.calls or 0 for fallback in before.fallbacks}
    for fallback in recording.fallbacks:
        warm = known.get((fallback.code, fallback.kind))
        if warm is None:
            yield fallback
        elif fallback.calls is not None and fallback.calls > warm:
            yield replace(fallback, calls=fallback.calls - warm)


def _eager(fallback: Fallback, code: CodeObject | None) -> Finding:
    name = fallback.code if code is None else display_name(code)
    rule = rules.RECOMPILE_LIMIT if fallback.kind == "recompile_limit" else rules.FALLBACK
    calls = "calls were not counted" if fallback.calls is None else count(fallback.calls, "call")
    message = f"{name} ran eagerly after freeze(), {calls} ({fallback.kind})"
    return finding(rule, message, key=f"{name} eager after freeze", code=code)


def _late(compilation: Compilation, code: CodeObject | None) -> Finding:
    name = compilation.code if code is None else display_name(code)
    did = "compiled" if compilation.outcome == "compiled" else f"tried ({compilation.outcome})"
    causes = compilation.recompile.causes if compilation.recompile is not None else ()
    why = f": {listing(f'{cause.kind} of {cause.source}' for cause in causes[:_TOLD])}" if causes else ""
    where = next((cause.where for cause in causes if cause.where is not None), None)
    message = f"{name} was {did} after freeze(), 0 allowed{why}"
    return finding(rules.TOO_MANY_COMPILES, message, key=f"{name} after freeze", code=code, where=where)
