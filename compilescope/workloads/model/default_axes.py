"""Chooses values for axes without any: informative sizes that the model itself accepts. No torch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from compilescope.record import Scalar
    from compilescope.workloads.model.input_spec import Size

_ODD: Final = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
_FACTORS: Final = (1, 2, 4, 8, 16, 32, 14)
"""Models need multiples: of a patch of 2, 8, 14, 16 or 32, of a window."""
_SMALL: Final = (2, 1, 0)
"""The sizes after two ordinary ones: 2 is still general; Dynamo specializes on 1 and 0."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen values.

    Attributes:
        axes: name to values; an axis keeps the first one while another varies.
        refused: what the model itself refuses in eager mode: axis, value, and what it raised.
    """

    axes: dict[str, tuple[Scalar, ...]]
    refused: tuple[tuple[str, Scalar, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """What is known when values are chosen.

    Attributes:
        free: the axes without values.
        given: the others, with their values.
        sizes: every size of an input, in which axes occur.
        widths: sizes that the model's parameters fix: an axis that equals one may become static with it.
        start: a value for each free axis at which the model should run, from an example; or nothing.
        runs: calls the model at a point eagerly; returns what it raised, or None.
    """

    free: Sequence[str]
    given: Mapping[str, tuple[Scalar, ...]]
    sizes: Sequence[Size]
    widths: Mapping[int, str]
    runs: Callable[[Mapping[str, Scalar]], str | None]
    start: Mapping[str, int] = field(default_factory=dict)

    def choose(self) -> Chosen | str:
        """Return values for every axis, or what the model raised at the last point that was tried.

        Each axis gets two sizes that coincide with nothing, then 2, 1 and 0, so that a sweep goes up, then down; values
        that the model itself refuses are left out.
        """
        base, error = self._base()
        if base is None:
            return error
        refused: list[tuple[str, Scalar, str]] = []
        axes: dict[str, tuple[Scalar, ...]] = {}
        for axis in self.free:
            rest = base[axis]
            larger = (size for size in self._larger(axis, base) if self.runs({**base, axis: size}) is None)
            kept = [rest, *itertools.islice(larger, 1)]
            for value in _SMALL:
                raised = None if value == rest else self.runs({**base, axis: value})
                if raised is not None:
                    refused.append((axis, value, raised))
                elif value != rest:
                    kept.append(value)
            axes[axis] = tuple(kept)
        return Chosen({**axes, **self.given}, tuple(refused))

    def _base(self) -> tuple[dict[str, Scalar] | None, str]:
        first: dict[str, Scalar] = {axis: values[0] for axis, values in self.given.items()}
        error = ""
        for point in self._starts(first):
            raised = self.runs(point)
            if raised is None:
                return self._least(point), ""
            error = raised
        return None, error

    def _least(self, point: dict[str, Scalar]) -> dict[str, Scalar]:
        """Return a point that runs with each axis at the smallest of our sizes that the model accepts, if any."""
        for axis in self.free:
            rest = {name: value for name, value in point.items() if name != axis}
            for factor in sorted(_FACTORS):
                smaller = {**rest, axis: self._size(axis, factor, rest)}
                if smaller[axis] == point[axis] or self.runs(smaller) is None:
                    point = smaller
                    break
        return {axis: point[axis] for axis in (*self.given, *self.free)}

    def _starts(self, first: Mapping[str, Scalar]) -> Iterator[dict[str, Scalar]]:
        if self.start:
            yield {**first, **{axis: self.start[axis] for axis in self.free}}
        for factor in _FACTORS:
            point = dict(first)
            for axis in self.free:
                point[axis] = self._size(axis, factor, point)
            yield point

    def _size(self, axis: str, factor: int, point: Mapping[str, Scalar]) -> int:
        """Return the smallest size for ``axis`` that coincides with nothing at ``point``, whose axes have values."""
        taken = self._taken(point) | set(self.widths)
        for odd in _ODD:
            size = odd * factor
            if not self._new(axis, size, point) & taken:
                return size
        return _ODD[0] * factor

    def _new(self, axis: str, size: int, point: Mapping[str, Scalar]) -> set[int]:
        known = {**point, axis: size}
        return {size, *(one.at(known) for one in self.sizes if axis in one.axes and set(one.axes) <= set(known))}

    def _taken(self, point: Mapping[str, Scalar]) -> set[int]:
        """Return the sizes at a point whose axes it knows, and the values of the axes themselves."""
        known = {size.at(point) for size in self.sizes if set(size.axes) <= set(point)}
        return known | {value for value in point.values() if isinstance(value, int)}

    def _larger(self, axis: str, base: Mapping[str, Scalar]) -> Iterator[int]:
        """Yield sizes above the current one, the smallest steps first, as a model may need multiples."""
        start = base[axis]
        assert isinstance(start, int)  # noqa: S101 (axes without values are sizes)
        taken = self._taken({name: value for name, value in base.items() if name != axis}) | set(self.widths)
        for factor in sorted(_FACTORS):
            sizes = (odd * factor for odd in _ODD if odd * factor > start)
            if start % factor == 0:
                yield next((size for size in sizes if not self._new(axis, size, base) & taken), start + factor)
