"""A trial of one sentence of advice: a program that runs as it stands, or with the sentence followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

import compilescope
from compilescope.analysis.advice import choose, facts_of
from compilescope.analysis.advice_breaks import for_break, for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from compilescope.analysis.advising import Advice
    from compilescope.record import Recording


class Program(Protocol):
    """What a trial runs. It returns what the compiled code gave."""

    def __call__(self, *, followed: bool) -> object: ...


@dataclass(frozen=True)
class Trial:
    """A program for one sentence.

    Attributes:
        cures: whether following the sentence removes the trouble; else it would be wrong, and must not be given.
        since: the first version of torch in which the program does what it is about.
    """

    sentence: str
    name: str
    run: Program
    cures: bool
    since: tuple[int, int] = (0, 0)

    @property
    def runs_here(self) -> bool:
        """Whether the installed torch is new enough."""
        major, minor = torch.__version__.split(".")[:2]
        return (int(major), int(minor)) >= self.since


def cures(sentence: str, *, since: tuple[int, int] = (0, 0)) -> Callable[[Program], Program]:
    """Mark a program in which the sentence is given, and following it removes the trouble."""
    return _mark(sentence, cures=True, since=since)


def wrong(sentence: str) -> Callable[[Program], Program]:
    """Mark a program in which following the sentence does not help, or does harm, and in which it is not given."""
    return _mark(sentence, cures=False, since=(0, 0))


def _mark(sentence: str, *, cures: bool, since: tuple[int, int]) -> Callable[[Program], Program]:
    def mark(run: Program) -> Program:
        run.__dict__.setdefault("trials", []).append((sentence, cures, since))
        return run

    return mark


def after(first: Program) -> Callable[[Program], Program]:
    """Mark a program before which another runs unobserved, in the same cache."""

    def mark(run: Program) -> Program:
        run.__dict__.setdefault("unseen", []).append(first)
        return run

    return mark


def trials_in(module: ModuleType) -> Iterator[Trial]:
    """Yield the trials of a module."""
    for name, thing in list(vars(module).items()):
        for sentence, cured, since in getattr(thing, "__dict__", {}).get("trials", ()):
            yield Trial(sentence=sentence, name=name, run=thing, cures=cured, since=since)


def calls(function: Callable[..., Any], inputs: Iterable[tuple[Any, ...]], **settings: Any) -> list[Any]:
    """Compile a function, call it with each tuple of arguments, and return what it gave."""
    compiled = torch.compile(function, **{"backend": "eager", **settings})
    return [compiled(*arguments) for arguments in inputs]


@dataclass(frozen=True)
class Seen:
    """What became of one run."""

    recording: Recording
    outcome: object
    raised: bool

    @property
    def sentences(self) -> set[str]:
        """The names of the sentences that were given."""
        return {advice.name for advice in given(self.recording)}

    @property
    def recompiles(self) -> int:
        """How often it compiled again, or was refused that."""
        return sum(c.recompile is not None for c in self.recording.compilations)

    @property
    def breaks(self) -> int:
        """At how many sites its graph broke."""
        return len(self.recording.graph_breaks)

    @property
    def harm(self) -> int:
        """What is worse than a recompile: breaks, errors, frames that ran eager."""
        failed = sum(c.outcome not in ("compiled", "empty") for c in self.recording.compilations)
        return self.breaks + failed + len(self.recording.fallbacks) + self.raised


def given(recording: Recording) -> Iterator[Advice]:
    """Yield every sentence that stands in a recording."""
    for compilation in recording.compilations:
        if compilation.recompile is not None:
            facts = facts_of(recording, compilation)
            yield from (choose(cause, facts) for cause in compilation.recompile.causes)
        if compilation.error is not None and (advice := for_error(compilation.error)) is not None:
            yield advice
    for site in recording.graph_breaks:
        if (advice := for_break(site, recording.meta.config)) is not None:
            yield advice


def seen(run: Program, *, followed: bool) -> Seen:
    """Run a program in an empty cache and observe it."""
    torch.compiler.reset()
    torch.manual_seed(0)
    outcome: object = None
    raised = False
    for first in run.__dict__.get("unseen", ()):
        first(followed=followed)
    with compilescope.observe(count_runs=True) as scope:
        try:
            outcome = run(followed=followed)
        except Exception:  # noqa: BLE001 (whatever Dynamo raises is part of what is tried)
            raised = True
    return Seen(scope.recording, outcome, raised)


def eager(run: Program, *, followed: bool) -> object:
    """Return what a program gives where nothing is compiled."""
    torch.compiler.reset()
    torch.manual_seed(0)
    with torch.compiler.set_stance("force_eager"):
        return run(followed=followed)
