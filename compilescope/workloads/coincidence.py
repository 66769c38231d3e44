"""Warns before a sweep about values that Dynamo would confuse. Pure; does not import torch.

Dynamo gives equal sizes of the first inputs one symbol (duck sizing), and a size that equals a fixed width of the model
silently becomes static with it. Both look like a model that compiles for every shape, though it is free with another
first point.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from compilescope.record import Scalar

_MOST = 6
"""Most warnings shown for one sweep; the rest are counted."""


@dataclass(frozen=True, slots=True)
class _Size:
    """A size that an input may have: an axis, or the product of two (height times width is tokens)."""

    axes: tuple[str, ...]
    start: int

    @property
    def name(self) -> str:
        return "*".join(self.axes)

    def at(self, point: Mapping[str, Scalar]) -> int | None:
        """Return the size at ``point``, None if an axis is not a number there."""
        product = 1
        for axis in self.axes:
            value = point[axis]
            if not _is_size(value):
                return None
            product *= int(value or 0)
        return product


def _is_size(value: Scalar) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def coincidences(points: Sequence[Mapping[str, Scalar]], widths: Mapping[int, str]) -> tuple[str, ...]:
    """Return a sentence for each pair of sizes that are equal at the first point and differ later.

    Only sizes that vary over the sweep count: a size that never varies may become static at no cost. Sizes 0 and 1
    coincide with nothing, as they get no symbol.

    Args:
        points: in the order of their visit.
        widths: sizes that the model's parameters fix, each with its origin.
    """
    if not points:
        return ()
    sizes = [size for size in _sizes(points[0]) if size.start > 1 and _varies(size, points)]
    single = [size for size in _sizes(points[0]) if len(size.axes) == 1 and size.start > 1]
    said = [
        f"{size.name} is {size.start} at the first point, and so is a fixed width of the model "
        f"({widths[size.start]}): Dynamo may make it static and compile for each value. "
        f"Start the sweep at another value."
        for size in sizes
        if size.start in widths
    ]
    products = [size for size in sizes if len(size.axes) > 1]
    for one, other in [*itertools.combinations(single, 2), *itertools.product(single, products)]:
        if one.start == other.start and not set(one.axes) & set(other.axes) and _part(one, other, points):
            said.append(
                f"{one.name} and {other.name} are both {one.start} at the first point: Dynamo may take them for one "
                "size (duck sizing) and compile again where they differ. Start the sweep at unequal values."
            )
    more = len(said) - _MOST
    return (*said[:_MOST], f"{more} more values of the first point coincide.") if more > 0 else tuple(said)


def _sizes(first: Mapping[str, Scalar]) -> list[_Size]:
    numbers = {axis: int(value or 0) for axis, value in first.items() if _is_size(value)}
    singles = [_Size((axis,), value) for axis, value in numbers.items()]
    # A product with a factor of 0 or 1 says no more than its other factor.
    factors = [(axis, value) for axis, value in numbers.items() if value > 1]
    products = [_Size((a, b), x * y) for (a, x), (b, y) in itertools.combinations(factors, 2)]
    return singles + products


def _varies(size: _Size, points: Sequence[Mapping[str, Scalar]]) -> bool:
    return any(size.at(point) != size.start for point in points)


def _part(one: _Size, other: _Size, points: Sequence[Mapping[str, Scalar]]) -> bool:
    return any(one.at(point) != other.at(point) for point in points)
