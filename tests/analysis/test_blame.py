"""Against a cache whose rules are known: no axis that costs compilations is ever called free."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilescope.analysis.axes import summarise
from compilescope.record import Compilation, EntryMiss, Failure, Recompile, Sweep, SweepPoint

if TYPE_CHECKING:
    import random

    from compilescope.record import AxisSummary, Scalar

    Point = dict[str, Scalar]

AXES: dict[str, tuple[Scalar, ...]] = {"height": (3, 5, 7), "text": (7, 77, 0, 1), "cfg": (False, True)}


@dataclass(frozen=True)
class Model:
    """Compiles as Dynamo would: text is free but for 0 and 1, and each static axis has a graph for each value.

    Attributes:
        static: axes that are compiled for one value.
        hidden: whether guards speak of height times seven, a value that no axis has.
    """

    static: frozenset[str]
    hidden: bool

    def key(self, point: Point) -> Point:
        """Return what an entry is compiled for."""
        text = point["text"] if "text" in self.static or point["text"] in {0, 1} else "free"
        return {axis: value for axis, value in point.items() if axis in self.static} | {"text": text}

    def causes(self, entry: Point, point: Point) -> tuple[Failure, ...]:
        """Return what an entry that was compiled at ``entry`` holds against ``point``."""
        old, new = self.key(entry), self.key(point)
        return tuple(self._cause(axis, entry[axis], point[axis]) for axis in new if old[axis] != new[axis])

    def _cause(self, axis: str, old: Scalar, new: Scalar) -> Failure:
        kind, expected, actual = "size", str(old), str(new)
        if axis == "cfg":
            kind = "python_bool"
        elif axis == "text" and {old, new} & {0, 1}:
            kind, expected = "zero_one", str(old) if old in {0, 1} else ">= 2"
        elif axis == "height" and self.hidden:
            expected, actual = str(int(old or 0) * 7), str(int(new or 0) * 7)
        return Failure(source=axis, guard="g", expected=expected, actual=actual, guard_type="TENSOR_MATCH", kind=kind)

    def sweep(self, points: list[Point]) -> dict[str, AxisSummary]:
        """Run over ``points``, and summarise what compiled."""
        compilations: list[Compilation] = []
        for point in points:
            misses = [(one.id, self.causes(one.point or {}, point)) for one in reversed(compilations)]
            if any(not causes for _, causes in misses):
                continue
            recompile = None
            if misses:
                closest, causes = min(misses, key=lambda miss: len(miss[1]))
                recompile = Recompile(entries=(EntryMiss(id=closest, failing=causes),), closest=closest, causes=causes)
            compilations.append(
                Compilation(
                    id=f"0/{len(compilations)}",
                    code="f",
                    outcome="compiled",
                    seconds=0.1,
                    point=point,
                    recompile=recompile,
                )
            )
        visited = tuple(SweepPoint(values=point, status="ok", seconds=0.1) for point in points)
        return summarise(Sweep(workload="w", order="grid", axes=AXES, points=visited), compilations)

    def costs(self, axis: str) -> bool:
        """Whether a graph of its own stands for some value of ``axis``."""
        return axis in self.static or axis == "text"


models = st.builds(Model, st.frozensets(st.sampled_from(sorted(AXES))), st.booleans())


def grid() -> list[Point]:
    return [dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values())]


@given(models, st.randoms(use_true_random=False))
def test_no_order_hides_an_axis_that_costs_compilations(model: Model, chance: random.Random) -> None:
    points = grid()
    chance.shuffle(points)
    summary = model.sweep(points)
    assert not [axis for axis in AXES if model.costs(axis) and summary[axis].free]


@given(models)
def test_a_grid_blames_no_axis_that_costs_nothing(model: Model) -> None:
    summary = model.sweep(grid())
    assert {axis: not summary[axis].free for axis in AXES} == {axis: model.costs(axis) for axis in AXES}


@given(st.randoms(use_true_random=False))
def test_text_is_free_but_for_zero_and_one_in_any_order(chance: random.Random) -> None:
    points = grid()
    chance.shuffle(points)
    summary = Model(frozenset(), hidden=False).sweep(points)
    assert summary["text"].free_except == (0, 1)


@pytest.mark.parametrize("static", ["height", "cfg"])
def test_static_axis_compiles_at_every_value_but_the_first(static: str) -> None:
    summary = Model(frozenset({static}), hidden=True).sweep(grid())
    assert summary[static].compiles_at == AXES[static][1:]
