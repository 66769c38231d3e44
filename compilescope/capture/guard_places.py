"""Where each guard of an entry comes from: the user's line, and torch's own.

A guard's text names one line, the innermost, which is in torch for every norm and linear. The whole stack only exists
while the frame is compiled. It is recorded then, and the result is kept on the guard manager itself, as plain data:
it lives as long as the entry's guards, and keeps nothing else alive.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compilescope.capture import _torch_places, describe, guard_expressions, resume_lines
from compilescope.capture.places import KEPT_AS, NOWHERE, Frames, Place, choose, kept
from compilescope.capture.size_pins import Pin, size_pins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compilescope.capture.resume_lines import ResumeLines

_PROPERTIES: Final = (".size()", ".stride()", ".storage_offset()", "._base")
_TENSOR_GUARD: Final = "TENSOR_MATCH"


@dataclass(frozen=True, slots=True)
class _Side:
    """The places of one shape guard: the line that set its lower bound, and the one that set its upper bound."""

    sources: frozenset[str]
    lower: Frames
    upper: Frames


@dataclass(frozen=True, slots=True)
class GuardPlaces:
    """The places of one entry's guards."""

    _texts: dict[str, Frames] = field(default_factory=dict)
    _sources: dict[str, dict[str, Frames]] = field(default_factory=dict)
    _shapes: dict[str, list[_Side]] = field(default_factory=dict)
    _pins: dict[str, Pin] = field(default_factory=dict)

    def guard(self, source: str, guard_type: str, text: str = "") -> Place:
        """Return the place of a leaf guard.

        Args:
            source: Dynamo's own source text, as ``manager.get_source()`` gives it.
            guard_type: the class of the leaf guard.
            text: the guard's whole line from ``verbose_code_parts()``: with it the answer is exact. Without it
                the place is that of a guard at the same source, of the same type if there is one.
        """
        found = self._texts.get(text)
        if found is None:
            made = self._sources.get(source, {})
            found = made.get(guard_type) or next(iter(made.values()), NOWHERE)
        return found.describe()

    def pin(self, source: str) -> dict[str, Any]:
        """Return what a failure says of the line that needed its size or number as a constant; empty without one.

        Args:
            source: as Dynamo writes it, such as ``L['x'].size()[0]``.
        """
        pin = self._pins.get(source)
        if pin is None:
            return {}
        return {"pinned_by": pin.where, "pinned_with": tuple(map(describe.source, pin.shared))}

    def shape(self, text: str, *, upper: bool = False) -> Place:
        """Return the place of a shape guard, such as ``2 <= L['x'].size()[0]  # y = x + 1  # a.py:3 in f``.

        Args:
            text: the guard's whole line from ``verbose_code_parts()``.
            upper: for a guard with two bounds, return the line that set the upper one.
        """
        written = self._texts.get(text)
        if written is not None:
            return written.describe()
        expression, _, comment = text.partition("  # ")
        sides = self._shapes.get(comment, ())
        if sides:
            side = max(sides, key=lambda one: sum(source in expression for source in one.sources))
            return (side.upper if upper else side.lower).describe()
        # A coincidental equality of sizes has no line: the line of a tensor in it is used instead.
        tensors = (_tensor(symbol.text) for symbol in guard_expressions.symbols(expression.strip()))
        places = (self.guard(tensor, _TENSOR_GUARD) for tensor in tensors if tensor in self._sources)
        return next(places, Place(None, None))


_UNKNOWN: Final = GuardPlaces()


def of(manager: object) -> GuardPlaces:
    """Return the places of the guards of a guard manager; empty if its frame was compiled without a watcher."""
    found = getattr(manager, KEPT_AS, None)
    return found if isinstance(found, GuardPlaces) else _UNKNOWN


def _tensor(symbol: str) -> str:
    for name in _PROPERTIES:
        symbol = symbol.partition(name)[0]
    return symbol


@dataclass(slots=True)
class _Building:
    """The guards that are being built for one entry. ``lines`` are the correct lines of a resume function."""

    lines: ResumeLines | None
    texts: dict[str, Frames] = field(default_factory=dict)
    _chosen: dict[int, Frames] = field(default_factory=dict)

    def choose(self, guard: Any) -> Frames:  # noqa: ANN401 (version dependent)
        """Choose the lines of a guard, once; the graph keeps it alive, so that its id stays its own."""
        found = self._chosen.get(id(guard))
        if found is None:
            found = self._chosen[id(guard)] = choose(_torch_places.stack_of(guard), self.lines)
        return found

    def note(self, guard: Any, lines: list[str]) -> None:  # noqa: ANN401 (version dependent)
        """Note the lines that were written for a guard."""
        frames = self.choose(guard)
        for line in lines:
            self.texts.setdefault(line, frames)

    def places(self, output_graph: Any) -> GuardPlaces:  # noqa: ANN401 (version dependent)
        """Return what was found, once all guards are built."""
        sources: dict[str, dict[str, Frames]] = {}
        for guard, source, guard_type in _torch_places.guards_of(output_graph):
            sources.setdefault(source, {}).setdefault(guard_type, self.choose(guard))
        shapes = _by_comment(output_graph, self.lines)
        return GuardPlaces(self.texts, sources, shapes, size_pins(output_graph.shape_env, self.lines))


class Watch(threading.local):
    """Watches Dynamo build guards. Its methods wrap what :mod:`compilescope.capture._torch_places` names."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[_Building] = []

    def building(self, original: Callable[..., None]) -> Callable[..., None]:
        """Wrap the constructor that builds an entry's guards."""

        def init(builder: Any, code: Any, output_graph: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (Dynamo's)
            building = _Building(resume_lines.of(code))
            self._open.append(building)
            try:
                original(builder, code, output_graph, *args, **kwargs)
            finally:
                self._open.pop()
            setattr(builder.guard_manager, KEPT_AS, building.places(output_graph))

        return init

    def writing(self, original: Callable[..., list[str]]) -> Callable[..., list[str]]:
        """Wrap the function that writes the lines of one guard."""

        def write(code_parts: Any, guard: Any, *args: Any, **kwargs: Any) -> list[str]:  # noqa: ANN401 (Dynamo's arguments)
            lines = original(code_parts, guard, *args, **kwargs)
            if self._open and guard is not None:
                self._open[-1].note(guard, lines)
            return lines

        return write

    @staticmethod
    def asking(original: Callable[..., None]) -> Callable[..., None]:
        """Wrap the constructor of the place that a shape's guard is given."""

        def init(place: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (torch's arguments)
            original(place, *args, **kwargs)
            # The class is frozen; this is not one of its fields, so places compare and print as before.
            object.__setattr__(place, KEPT_AS, choose(_torch_places.user_stack_now()))

        return init


def _by_comment(output_graph: Any, lines: ResumeLines | None) -> dict[str, list[_Side]]:  # noqa: ANN401
    """Gather the places of the shape guards under the comments that Dynamo writes after them.

    One comment may stand for several places, since it only names the innermost line: in that case the sources that
    they read distinguish them.
    """
    found: dict[str, list[tuple[Any, Frames, Frames]]] = {}
    for about, lower, upper in _torch_places.shape_places(output_graph):
        first, second = kept(lower).corrected(lines), kept(upper).corrected(lines)
        found.setdefault(str(lower), []).append((about, first, first))
        if lower is not upper:
            found.setdefault(str(upper), []).append((about, second, second))
            found.setdefault(f"{lower} and {upper}", []).append((about, first, second))
    return {comment: list(_sides(output_graph, places)) for comment, places in found.items()}


def _sides(output_graph: Any, places: list[tuple[Any, Frames, Frames]]) -> Iterator[_Side]:  # noqa: ANN401
    alike = all(_lines(lower, upper) == _lines(*places[0][1:]) for _, lower, upper in places)
    for about, lower, upper in places[:1] if alike else places:
        yield _Side(frozenset() if alike else _torch_places.sources_in(output_graph, about), lower, upper)


def _lines(*places: Frames) -> list[tuple[str, int | None]]:
    return [(frame.filename, frame.lineno) for frames in places for frame in frames if frame is not None]
