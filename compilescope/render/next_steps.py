"""What to do next, for a run that raised, that compiled nothing, or that was recorded completely."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from compilescope.analysis.glossary import FALLBACK, WORDS
from compilescope.analysis.grouping import causes_of
from compilescope.analysis.kinds import KINDS
from compilescope.analysis.rules import RULES
from compilescope.analysis.summary import gist

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.record import Recording, Run
    from compilescope.render.options import Options

_CAUSES: Final = 2
"""Most kinds of cause to explain."""
_ERROR: Final = 160
_REGISTRY_ID: Final = re.compile(r"GB\d+")
_MISSING: Final = ("ModuleNotFoundError", "ImportError")
_FALLBACKS: Final = frozenset(word.name for word in WORDS if word.family == FALLBACK)


def next_steps(recording: Recording, options: Options, *, hints_left_out: bool = False) -> tuple[str, ...]:
    """Return what to do next, the most urgent first; nothing if there is nothing to investigate.

    Args:
        recording: what happened.
        options: how the reader sees it now.
        hints_left_out: whether there was no room for the hints.
    """
    steps = [*_about_the_run(recording)]
    if not options.verbose and recording.compilations:
        steps.append(f"{options.more} for all{', with what helps' if hints_left_out else ''}")
    return (*steps, *(f"compilescope explain {word}" for word in _words(recording)))


def _about_the_run(recording: Recording) -> Iterator[str]:
    run = recording.meta.run
    if run is not None and run.status != "ok":
        yield from _about_the_end(run, recording)
        return
    if recording.compilations or recording.fallbacks:
        return
    if recording.meta.next:
        yield from recording.meta.next
    elif recording.sweeps:
        yield "let what the factory returns call the compiled callable"
    else:
        yield "call what torch.compile returned, within this run: nothing is compiled before its first call"
    yield "unset TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE if they are set"


def _about_the_end(run: Run, recording: Recording) -> Iterator[str]:
    if run.status == "interrupted":
        yield "run it to its end: what comes after that was not recorded"
    elif run.status == "exited":
        if run.exit_code:
            yield f"see why it ends with exit code {run.exit_code}: what comes after that was not recorded"
    elif (run.error or "").startswith(_MISSING) and not recording.compilations:
        yield f"fix the import: {_short(run)}. Is it installed where compilescope is, or on PYTHONPATH?"
    else:
        before = "" if recording.compilations else ", which came before anything was compiled"
        yield f"fix {_short(run)}{before}"


def _short(run: Run) -> str:
    """Return the error, shortened: it is printed in full above; its end names the line."""
    said = gist(run.error or "what it raised")
    if len(said) <= _ERROR:
        return said
    return f"{said[: _ERROR // 2]}...{said[-_ERROR // 2 :]}"


def _words(recording: Recording) -> list[str]:
    """Return the words of the report that should be explained first."""
    causes = (cause.kind for c in recording.recompiles for cause in causes_of(c.recompile) if cause.kind in KINDS)
    ids = (b.registry_id for b in recording.graph_breaks if _REGISTRY_ID.fullmatch(b.registry_id or ""))
    fallbacks = (fallback.kind for fallback in recording.fallbacks if fallback.kind in _FALLBACKS)
    rules = (finding.rule for finding in recording.findings if finding.rule in RULES)
    commonest = (
        *Counter(causes).most_common(_CAUSES),
        *Counter(ids).most_common(1),
        *Counter(fallbacks).most_common(1),
        *Counter(rules).most_common(1),
    )
    return [word for word, _ in commonest if word is not None]
