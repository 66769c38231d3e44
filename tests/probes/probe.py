"""A probe: the smallest program whose recompile has one kind of cause, and the same with our own advice followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


class Program(Protocol):
    """What a probe runs: as it stands, or with the advice for its kind applied."""

    def __call__(self, *, cured: bool) -> object: ...


@dataclass(frozen=True)
class Probe:
    """A program and the cause of its only recompile.

    Attributes:
        source: the guarded value as the report should write it.
        expected: why nothing removes the recompile (the advice says "expected", or asks for other inputs);
            None where the program can be cured.
    """

    name: str
    kind: str
    source: str
    run: Program
    expected: bool


def probe(kind: str, source: str, *, expected: bool = False) -> Callable[[Program], Program]:
    """Mark a function as a probe of ``kind``."""

    def mark(run: Program) -> Program:
        run.probes = (kind, source, expected)  # type: ignore[attr-defined]
        return run

    return mark


def probes_in(module: ModuleType) -> Iterator[Probe]:
    """Yield the probes of a module."""
    for name, thing in list(vars(module).items()):
        if hasattr(thing, "probes"):
            kind, source, expected = thing.probes
            yield Probe(name=name, kind=kind, source=source, run=thing, expected=expected)
