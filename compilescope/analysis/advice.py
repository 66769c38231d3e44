"""Advice that fits the facts of a run: what helps against a cause, a graph break, or an error.

:func:`choose` picks a sentence by its name; the sentences are in :mod:`compilescope.analysis.sentences`, and
the tests try each of them. It does not advise a setting that is already set, and says so where nothing helps.
Pure functions over a recording; imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from compilescope.analysis import advice_breaks, advice_objects, advice_shapes, advice_values
from compilescope.analysis.advising import Advice
from compilescope.analysis.facts import Facts, facts_of
from compilescope.analysis.kinds import KINDS, SHAPE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from compilescope.record import Compilation, CompileError, Failure, Recompile, Recording

__all__ = ["Facts", "advise", "advise_recording", "choose", "facts_of"]

_RULES: Final[Mapping[str, Callable[[Failure, Facts], Advice]]] = {
    **advice_shapes.RULES,
    **advice_values.RULES,
    **advice_objects.RULES,
}


def choose(cause: Failure, facts: Facts) -> Advice:
    """Return the sentence that fits a classified cause."""
    kind = cause.kind or "unknown"
    resumed = advice_breaks.for_resumed(facts.resumes, facts)
    if resumed is not None and (KINDS[kind].family == SHAPE or "___stack" in cause.source):
        return resumed
    rule = _RULES.get(kind)
    return Advice(kind, {"source": cause.source}) if rule is None else rule(cause, facts)


def advise(cause: Failure, facts: Facts) -> str:
    """Return what helps against a classified cause, given the facts of its run."""
    return choose(cause, facts).text


def advise_recording(recording: Recording) -> Recording:
    """Return the recording with advice on every cause, graph break and error. Advising twice changes nothing."""
    return replace(
        recording,
        compilations=tuple(_compilation(c, recording) for c in recording.compilations),
        graph_breaks=tuple(advice_breaks.advised(site, recording.meta.config) for site in recording.graph_breaks),
    )


def _compilation(compilation: Compilation, recording: Recording) -> Compilation:
    error = None if compilation.error is None else _error(compilation.error)
    if compilation.recompile is None:
        return replace(compilation, error=error)
    recompile = _recompile(compilation.recompile, facts_of(recording, compilation))
    return replace(compilation, error=error, recompile=recompile)


def _recompile(recompile: Recompile, facts: Facts) -> Recompile:
    return replace(recompile, causes=tuple(_advised(cause, facts) for cause in recompile.causes))


def _advised(cause: Failure, facts: Facts) -> Failure:
    pin = cause if cause.pinned_by is not None else facts.pins.get(cause.source, cause)
    known = replace(cause, pinned_by=pin.pinned_by, pinned_with=pin.pinned_with)
    return replace(cause, advice=advise(known, facts))


def _error(error: CompileError) -> CompileError:
    chosen = advice_breaks.for_error(error)
    return replace(error, advice=None if chosen is None else chosen.text)
