"""What a recording holds besides the cause itself, as far as advice depends on it. Pure; imports no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from compilescope.analysis.kinds import KINDS, SHAPE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from compilescope.record import CodeObject, Compilation, Failure, GraphBreak, Location, Recording, Scalar

LIBRARIES: Final = ("diffusers", "transformers", "peft", "torch")
_RESUMED_AT: Final = re.compile(r"torch_dynamo_resume_in_.*_at_(\d+)$")
_ASKED: Final = ("divisible", "bound", "relation", "constant")
"""Parts of a shape expression that show that the code requires something of a size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the recording holds.

    Attributes:
        torch: its version, major and minor.
        dynamic: the value of ``torch.compile(dynamic=...)``.
        backend: name of the backend.
        config: the settings under which the run compiled.
        causes: every cause of the same recompile.
        asked: sources of which the traced code is known to require something: a bound, a remainder, a relation.
        library: the library that the code object belongs to, one of :data:`LIBRARIES`; None for any other.
        owners: classes that a shared code object ran for.
        pins: failures of any entry of this code object that name the line that pins their size, by source.
        together: sizes of this code object that changed together in some recompile, so they are equal.
        resumes: the graph break after which the code object continues, if it is a resume function.
        beside: other graph breaks in the same function, each of which also keeps it from being one graph.
    """

    torch: tuple[int, int]
    dynamic: bool | None = None
    backend: str | None = None
    config: Mapping[str, Scalar] = field(default_factory=dict)
    causes: tuple[Failure, ...] = ()
    asked: frozenset[str] = frozenset()
    library: str | None = None
    owners: tuple[str, ...] = ()
    pins: Mapping[str, Failure] = field(default_factory=dict)
    together: tuple[frozenset[str], ...] = ()
    resumes: GraphBreak | None = None
    beside: tuple[GraphBreak, ...] = ()

    @property
    def frees_sizes(self) -> bool:
        """Whether sizes 0 and 1 are already treated like any other size."""
        return self.config.get("backed_size_oblivious") is True

    @property
    def inductor(self) -> bool:
        """Whether Inductor is the backend."""
        return self.backend == "inductor"


def facts_of(recording: Recording, compilation: Compilation) -> Facts:
    """Return what ``recording`` holds about the conditions of one compilation."""
    codes = {code.id: code for code in recording.code_objects}
    code = codes.get(compilation.code)
    owners = () if code is None or code.owner is None else tuple(code.owner.split(", "))
    resumes = None if code is None else _break_before(code, codes, recording)
    return Facts(
        torch=_version(recording.meta.torch),
        dynamic=compilation.dynamic,
        backend=compilation.backend,
        config=recording.meta.config,
        causes=() if compilation.recompile is None else compilation.recompile.causes,
        asked=frozenset(_asked(recording, compilation.code)),
        library=None if code is None else library_of(code.file),
        owners=owners,
        pins=dict(_pins(recording, compilation.code)),
        together=tuple(_together(recording, compilation.code)),
        resumes=resumes,
        beside=() if resumes is None else tuple(_beside(resumes, codes, recording)),
    )


def _together(recording: Recording, code: str) -> Iterator[frozenset[str]]:
    """Yield the sizes at which one change was seen: they are equal, so they must be marked together."""
    for compilation in recording.compilations:
        if compilation.code == code and compilation.recompile is not None:
            for cause in compilation.recompile.causes:
                if cause.also and KINDS[cause.kind or "unknown"].family == SHAPE:
                    yield frozenset((cause.source, *cause.also))


def _pins(recording: Recording, code: str) -> Iterator[tuple[str, Failure]]:
    """Yield the pins of every entry: a line pins a size only once that is dynamic, so the first entry has no pin."""
    for compilation in recording.compilations:
        if compilation.code == code and compilation.recompile is not None:
            for entry in compilation.recompile.entries:
                for failure in entry.failing:
                    if failure.pinned_by is not None:
                        yield failure.source, failure


def library_of(place: str | Location | None) -> str | None:
    """Return the library that a file belongs to, by the first folder under site-packages."""
    file = place if isinstance(place, str) or place is None else place.file
    first = (file or "").partition("/")[0]
    return first if first in LIBRARIES else None


def _version(text: str) -> tuple[int, int]:
    numbers = re.match(r"(\d+)\.(\d+)", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _asked(recording: Recording, code: str) -> set[str]:
    """Return the sizes of which the code requires something, as far as any of its entries failed on that."""
    found: set[str] = set()
    for compilation in recording.compilations:
        if compilation.code != code or compilation.recompile is None:
            continue
        for entry in compilation.recompile.entries:
            for failure in entry.failing:
                if _asks(failure):
                    found.update(failure.symbols)
    return found


def _asks(failure: Failure) -> bool:
    """Whether a failure shows that the user's code requires something of a size; torch's own checks do not count."""
    if failure.part not in _ASKED or KINDS[failure.kind or "unknown"].family != SHAPE:
        return False
    by_torch = failure.torch_where is not None or library_of(failure.where) == "torch"
    return not by_torch and not any(".stride()" in symbol for symbol in failure.symbols)


def _break_before(code: CodeObject, codes: Mapping[str, CodeObject], recording: Recording) -> GraphBreak | None:
    """Return the break after which a resume function continues: the one at its line, else its parent's only one."""
    if code.resumes is None:
        return None
    line = _RESUMED_AT.search(code.qualname)
    parents = _ancestors(code, codes)
    own = [site for site in recording.graph_breaks if site.code in parents]
    at_line = [site for site in own if line is not None and site.line == int(line[1])]
    return at_line[0] if at_line else own[0] if len(own) == 1 else None


def _beside(site: GraphBreak, codes: Mapping[str, CodeObject], recording: Recording) -> Iterator[GraphBreak]:
    """Yield the other breaks in the function that contains a break, including those in its resume functions."""
    for other in recording.graph_breaks:
        within = {other.code, *(_ancestors(codes[other.code], codes) if other.code in codes else ())}
        if other != site and other.file == site.file and site.code in within:
            yield other


def _ancestors(code: CodeObject, codes: Mapping[str, CodeObject]) -> set[str]:
    found: set[str] = set()
    parent = code.resumes
    while parent is not None and parent not in found:
        found.add(parent)
        parent = codes[parent].resumes if parent in codes else None
    return found
