"""Checks eager fallbacks, recompile limits and failed compilations against what a budget allows by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.analysis import rules
from compilescope.analysis.summary import gist, met_limit
from compilescope.gate.findings import finding
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from compilescope.gate.budget import Budget
    from compilescope.gate.selection import Scope
    from compilescope.record import Compilation, Fallback, Finding

_LIMIT: Final = "recompile_limit"
_SHOWN_AS: Final[Mapping[str, str]] = MappingProxyType(
    {"backend_error": "backend_error", "user_exception": "user_exception"}
)
"""The kind of fallback for each error that Dynamo suppresses; any other is a skipped frame."""


def eager_findings(scope: Scope, budget: Budget) -> Iterator[Finding]:
    """Yield what ran eagerly, or may have, and is not allowed to."""
    yield from _limits(scope, budget)
    for fallback in scope.recording.fallbacks:
        if fallback.kind != _LIMIT and not _allowed(fallback.kind, fallback.code, scope, budget):
            yield _fallback(fallback, scope)
    yield from _failed(scope, budget)


def _allowed(kind: str, code: str, scope: Scope, budget: Budget) -> bool:
    known = scope.codes.get(code)
    names = {code, scope.name(code)} | ({known.qualname} if known is not None else set())
    return budget.allows_fallback(kind, names)


def _limits(scope: Scope, budget: Budget) -> Iterator[Finding]:
    eager = {fallback.code: fallback for fallback in scope.recording.fallbacks if fallback.kind == _LIMIT}
    limits = {
        compilation.code: compilation.limit for compilation in scope.recording.compilations if met_limit(compilation)
    }
    for code in dict.fromkeys((*limits, *eager)):
        if _allowed(_LIMIT, code, scope, budget):
            continue
        limit = limits.get(code)
        of = "" if limit is None else f" of {limit}"
        calls = eager[code].calls if code in eager else None
        ran = "eager calls were not counted" if calls is None else f"{count(calls, 'call')} ran eagerly"
        message = f"{scope.name(code)} hit the recompile limit{of}; {ran}"
        yield finding(rules.RECOMPILE_LIMIT, message, key=scope.key(code), code=scope.codes.get(code))


def _fallback(fallback: Fallback, scope: Scope) -> Finding:
    calls = "calls were not counted" if fallback.calls is None else count(fallback.calls, "call")
    message = f"{scope.name(fallback.code)} ran eagerly ({fallback.kind}, {calls}): {gist(fallback.detail)}"
    key = f"{scope.key(fallback.code)}: {fallback.kind}"
    return finding(rules.FALLBACK, message, key=key, code=scope.codes.get(fallback.code))


def _failed(scope: Scope, budget: Budget) -> Iterator[Finding]:
    reported = {(fallback.code, fallback.kind) for fallback in scope.recording.fallbacks}
    found: dict[tuple[str, str], list[Compilation]] = {}
    for compilation in scope.recording.compilations:
        # A compiled attempt did not fail; an empty one had nothing to compile; a limit is reported above.
        if compilation.outcome in ("compiled", "empty") or met_limit(compilation):
            continue
        kind = "skipped_frame" if compilation.error is None else compilation.error.kind
        shown = _SHOWN_AS.get(kind, "skipped_frame")
        if (compilation.code, shown) not in reported and not _allowed(kind, compilation.code, scope, budget):
            found.setdefault((compilation.code, kind), []).append(compilation)
    for (code, kind), attempts in found.items():
        error = attempts[0].error
        why = "Dynamo gave no reason" if error is None else f"{error.type}: {gist(error.message)}"
        said = f"{scope.name(code)}: {count(len(attempts), 'attempt')} to compile {attempts[0].outcome}"
        where = None if error is None else error.where
        key = f"{scope.key(code)}: {kind}"
        rule = rules.FALLBACK if attempts[0].outcome == "skipped" else rules.COMPILE_FAILED
        yield finding(rule, f"{said} ({kind}): {why}", key=key, code=scope.codes.get(code), where=where)
