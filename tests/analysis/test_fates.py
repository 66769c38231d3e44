"""What is said of the values of an axis: each is recorded, and none of them is told by silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compilescope.analysis.axes import with_axes
from compilescope.record import (
    CodeObject,
    Compilation,
    EntryMiss,
    Failure,
    Fallback,
    Meta,
    Recompile,
    Recording,
    Sweep,
    SweepPoint,
)
from compilescope.render.sweeps import axis_lines

if TYPE_CHECKING:
    from compilescope.record import FallbackKind, Outcome, Scalar

META = Meta(compilescope="1", torch="2", python="3", platform="Linux", device="cpu", counts_runs=True)


def attempt(number: int, value: Scalar, *, outcome: Outcome = "compiled", dynamic: bool | None = False) -> Compilation:
    """Compile for a value of the axis ``n``; the first one is no recompile."""
    cause = Failure(source="x", guard="g", expected="1", actual="2", guard_type="TENSOR_MATCH", kind="size")
    miss = EntryMiss(id=f"0/{number - 1}", failing=(cause,))
    why = Recompile(entries=(miss,), closest=miss.id, causes=(cause,)) if number else None
    return Compilation(
        id=f"0/{number}",
        code="f",
        outcome=outcome,
        seconds=0.1,
        point={"n": value},
        dynamic=dynamic,
        recompile=why,
    )


def eager(*values: Scalar, kind: FallbackKind = "recompile_limit") -> Fallback:
    points = tuple({"n": value} for value in values)
    return Fallback(code="f", kind=kind, calls=len(values), detail="d", points=points)


def said(
    values: tuple[Scalar, ...],
    *compilations: Compilation,
    fallbacks: tuple[Fallback, ...] = (),
    raising: tuple[Scalar, ...] = (),
    left: tuple[Scalar, ...] = (),
) -> str:
    """Return the words on an axis of which some values raised, and some were not run."""
    points = tuple(
        SweepPoint(
            values={"n": value},
            status="error" if value in raising else "ok",
            seconds=0.1,
            error="IndexError: out of range" if value in raising else None,
        )
        for value in values
        if value not in left
    )
    recording = with_axes(
        Recording(
            meta=META,
            code_objects=(CodeObject(id="f", qualname="f", file="f.py", line=1),),
            compilations=compilations,
            fallbacks=fallbacks,
            sweeps=(Sweep(workload="w", order="grid", axes={"n": values}, points=points),),
        )
    )
    (line,) = axis_lines(recording, recording.sweeps[0])
    return line.verdict


def test_every_value_has_its_own_graph() -> None:
    assert said((32, 64), attempt(0, 32), attempt(1, 64)) == "every value has its own graph (size)"


@pytest.mark.parametrize(
    ("values", "words"),
    [((32, 64), "compiles at 1 of 2 values: 64 (size)"), ((32, 64, 8), "every value has its own graph (size)")],
)
def test_second_graph_may_be_general(values: tuple[int, ...], words: str) -> None:
    compilations = (attempt(number, value, dynamic=None) for number, value in enumerate(values))
    assert said(values, *compilations) == words


def test_value_that_an_entry_served_has_no_graph_of_its_own() -> None:
    assert said((32, 64, 8), attempt(0, 32), attempt(1, 64)) == "compiles at 1 of 3 values: 64 (size)"


def test_values_that_raised_or_ran_eagerly_are_told_and_the_others_too() -> None:
    compilations = (attempt(0, 32), attempt(1, 64), attempt(2, 8, outcome="limit"))
    assert said((32, 64, 8, 16, 200), *compilations, fallbacks=(eager(8, 16),), raising=(200,)) == (
        "8, 16: ran eagerly (limit); 200: raised IndexError; every other value has its own graph (size)"
    )


def test_value_refused_by_the_limit_ran_eagerly_though_calls_were_not_counted() -> None:
    unseen = Fallback(code="f", kind="recompile_limit", calls=None, detail="d")
    compilations = (attempt(0, 32), attempt(1, 64), attempt(2, 8, outcome="limit"))
    assert said((32, 64, 8), *compilations, fallbacks=(unseen,)).startswith("8: ran eagerly (limit); ")


def test_nothing_is_called_free_behind_the_limit() -> None:
    compilations = (attempt(0, 32), attempt(1, 64, outcome="limit"))
    assert said((32, 64), *compilations, fallbacks=(eager(64),)) == "64: ran eagerly (limit)"


def test_call_that_runs_eagerly_at_every_value_is_no_doing_of_the_axis() -> None:
    fallback = eager(32, 64, kind="skipped_frame")
    assert said((32, 64), attempt(0, 32), fallbacks=(fallback,)) == "free"


def test_free_values_beside_one_that_raised() -> None:
    assert said((32, 64, 200), attempt(0, 32), raising=(200,)) == "200: raised IndexError; free otherwise"


def test_single_value_beside_one_that_raised_is_not_called_free() -> None:
    assert said((32, 200), attempt(0, 32), raising=(200,)) == "200: raised IndexError; otherwise not checked"


def test_values_that_an_interrupted_sweep_did_not_reach_are_counted() -> None:
    assert said((32, 64, 8), attempt(0, 32), left=(8,)) == "free (only 2 of 3 values ran)"


def test_compilation_at_a_point_that_was_interrupted_is_told() -> None:
    assert said((32, 64, 8), attempt(0, 32), attempt(1, 64), left=(64, 8)) == (
        "compiles at 1 of 3 values: 64 (size) (only 1 of 3 values ran)"
    )


def test_one_and_true_are_two_values() -> None:
    assert said((1, True), attempt(0, 1), raising=()) != "one value only: not varied"
