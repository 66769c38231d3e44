"""Holds a recording to what a mark or a helper claims of it. Pure: no pytest, and no torch for patterns."""

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
"""What a test claims by ``compilescope.freeze()``."""
_TOLD: Final = 2
"""Causes of one compilation that a finding names."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """One claim and what speaks against it."""

    claim: Claim
    findings: tuple[Finding, ...]

    @property
    def status(self) -> Literal["held", "failed", "broken", "fixed"]:
        """Whether the claim holds; ``broken`` and ``fixed`` where it was not expected to."""
        if self.claim.broken is None:
            return "failed" if self.findings else "held"
        if not self.findings:
            return "fixed"
        # What a baseline could accept, `broken` excuses: a limit that is passed, never something that was not seen.
        return "broken" if all(one.key is not None for one in self.findings) else "failed"


def rule(recording: Recording, claim: Claim, targets: Sequence[Target]) -> Ruling:
    """Hold ``recording`` to ``claim``, whose targets became what ``targets`` say."""
    distinct = tuple(_distinct(targets))
    budget = Budget(targets=tuple(target.selector for target in distinct), **claim.limits)
    found = judge(replace(recording, targets=distinct), budget)
    if budget.no_shape_recompile:
        found = (*found, *_not_varied(distinct))
    return Ruling(claim, found)


def _not_varied(targets: Sequence[Target]) -> Iterator[Finding]:
    """Yield the targets that were called with one set of sizes alone: no shape could compile them again."""
    for target in targets:
        if target.status == "compiled" and target.varied is False:
            message = f"Every call of {target.selector} had the same sizes, so that no recompile could be seen"
            yield finding(rules.NOT_VARIED, f"{message}; call it with others too.")


def _distinct(targets: Sequence[Target]) -> Iterator[Target]:
    """Tell two classes of one name apart: a budget knows targets by their names."""
    seen: dict[str, int] = {}
    for target in targets:
        times = seen[target.selector] = seen.get(target.selector, 0) + 1
        yield target if times == 1 else replace(target, selector=f"{target.selector} ({times})")


@dataclass(frozen=True, slots=True)
class Frozen:
    """What had happened when a warm-up ended.

    Attributes:
        recording: until then.
        served: how often a graph had run.
    """

    recording: Recording
    served: int


def rule_frozen(recording: Recording, frozen: Frozen, served: int) -> Ruling:
    """Hold ``recording`` to having compiled nothing and run nothing eagerly since it was frozen, but run something.

    Args:
        recording: of the whole test.
        frozen: what had happened when the warm-up ended.
        served: how often a graph has run by now.
    """
    warm = len(frozen.recording.compilations)
    before, after = recording.compilations[:warm], recording.compilations[warm:]
    if not any(one.outcome == "compiled" for one in before):
        cold = finding(rules.NOTHING_COMPILED, "Nothing was compiled before freeze(), so nothing was warmed up.")
        return Ruling(FREEZE, (cold,))
    codes = {code.id: code for code in recording.code_objects}
    late = [_late(one, codes.get(one.code)) for one in after if one.outcome != "empty"]
    eager = [_eager(one, codes.get(one.code)) for one in _more_eager(recording, frozen.recording)]
    found = (*late, *eager)
    if not found and served <= frozen.served:
        found = (finding(rules.NOTHING_COMPILED, "Nothing that was compiled was called after freeze()."),)
    return Ruling(FREEZE, found)


def _more_eager(recording: Recording, before: Recording) -> Iterator[Fallback]:
    """Yield what ran eagerly since then, with the calls since then; of what a compiled frame calls there are none."""
    known = {(one.code, one.kind): one.calls or 0 for one in before.fallbacks}
    for one in recording.fallbacks:
        warm = known.get((one.code, one.kind))
        if warm is None:
            yield one
        elif one.calls is not None and one.calls > warm:
            yield replace(one, calls=one.calls - warm)


def _eager(one: Fallback, code: CodeObject | None) -> Finding:
    name = one.code if code is None else display_name(code)
    rule = rules.RECOMPILE_LIMIT if one.kind == "recompile_limit" else rules.FALLBACK
    calls = "calls were not counted" if one.calls is None else count(one.calls, "call")
    message = f"{name} ran eagerly after freeze(), {calls} ({one.kind})"
    return finding(rule, message, key=f"{name} eager after freeze", code=code)


def _late(one: Compilation, code: CodeObject | None) -> Finding:
    name = one.code if code is None else display_name(code)
    did = "compiled" if one.outcome == "compiled" else f"tried ({one.outcome})"
    causes = one.recompile.causes if one.recompile is not None else ()
    why = f": {listing(f'{cause.kind} of {cause.source}' for cause in causes[:_TOLD])}" if causes else ""
    where = next((cause.where for cause in causes if cause.where is not None), None)
    message = f"{name} was {did} after freeze(), 0 allowed{why}"
    return finding(rules.TOO_MANY_COMPILES, message, key=f"{name} after freeze", code=code, where=where)
