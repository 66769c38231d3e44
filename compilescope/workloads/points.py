"""Which points a sweep visits, and in which order. Pure; does not import torch."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.errors import UsageError
from compilescope.wording import guess, listing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from compilescope.record import Scalar
    from compilescope.workloads.declare import Axis

Point = dict[str, "Scalar"]

GRID: Final = "grid"
ONE_AT_A_TIME: Final = "one_at_a_time"
RANDOM: Final = "random"
ORDERS: Final = (GRID, ONE_AT_A_TIME, RANDOM)
RETURN: Final = "return_to_start"


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a sweep.

    Attributes:
        name: one of :data:`ORDERS`.
        seed: of ``random``; other orders ignore it.
        returns: whether the first point is visited once more at the end. No axis causes a compilation there: every axis
            has a value that was compiled before.
    """

    name: str = GRID
    seed: int = 0
    returns: bool = False

    def __str__(self) -> str:
        """Return it as a recording names it, such as ``random(seed=3)+return_to_start``."""
        shown = f"{self.name}(seed={self.seed})" if self.name == RANDOM else self.name
        return f"{shown}+{RETURN}" if self.returns else shown

    def points(self, axes: Sequence[Axis]) -> list[Point]:
        """Return the points in the order of their visit.

        Without axes there is one point without values. ``grid`` varies the last axis fastest.
        ``one_at_a_time`` starts from every axis' first value and varies one axis while the others stay there.
        """
        if self.name == ONE_AT_A_TIME:
            found = _one_at_a_time(axes)
        else:
            names = [axis.name for axis in axes]
            found = [dict(zip(names, values, strict=True)) for values in itertools.product(*(a.values for a in axes))]
        if self.name == RANDOM:
            random.Random(self.seed).shuffle(found)  # noqa: S311 (an order to test in, no secret)
        return [*found, dict(found[0])] if self.returns else found


def _one_at_a_time(axes: Sequence[Axis]) -> list[Point]:
    start: Point = {axis.name: axis.values[0] for axis in axes}
    return [start, *({**start, axis.name: value} for axis in axes for value in axis.values[1:])]


def parse_order(text: str, *, seed: int = 0) -> Order:
    """Read ``grid``, ``one_at_a_time`` or ``random``, each with ``+return_to_start`` if wanted.

    Raises:
        UsageError: it is none of these; the message names them.
    """
    name, plus, suffix = text.replace("-", "_").partition("+")
    if name not in ORDERS or (plus and suffix != RETURN):
        known = [*ORDERS, f"{GRID}+{RETURN}"]
        msg = f"Unknown order {text!r}: the orders are {listing(ORDERS)}, each also with +{RETURN}.{guess(text, known)}"
        raise UsageError(msg)
    return Order(name=name, seed=seed, returns=bool(plus))


def override(axes: Sequence[Axis], chosen: Mapping[str, Sequence[str]], *, where: str) -> list[Axis]:
    """Return ``axes`` with the command line's values; the others keep theirs.

    Args:
        axes: as the workload declares them.
        chosen: axis name to values, as text.
        where: names the workload in an error.

    Raises:
        UsageError: an axis is unknown; the message names the known ones.
        WorkloadError: a value is missing.
    """
    known = {axis.name: axis for axis in axes}
    for name in chosen:
        if name not in known:
            has = f"its axes are {listing(known)}" if known else "it has no axes"
            msg = f"{where} has no axis {name!r}: {has}.{guess(name, known)}"
            raise UsageError(msg)
    return [
        type(axis)(axis.name, [read_value(text, like=_text_of(axis)) for text in chosen[axis.name]])
        if axis.name in chosen
        else axis
        for axis in axes
    ]


def _text_of(axis: Axis) -> str | None:
    """Return a value of an axis that has only strings: both ``3x7`` and ``512`` are strings then."""
    texts = [value for value in axis.values if isinstance(value, str)]
    return texts[0] if len(texts) == len(axis.values) else None


def read_value(text: str, *, like: object = None) -> Scalar:
    """Read one value of the command line: a number, ``true``, ``false``, ``none``, else a string.

    Args:
        text: as typed.
        like: an existing value of the axis; if it is a string, so is this one.
    """
    if isinstance(like, str):
        return text
    words: dict[str, Scalar] = {"true": True, "false": False, "none": None}
    if text.casefold() in words:
        return words[text.casefold()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
