"""What was not seen is a finding, whatever the limits."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge
from compilescope.record import Parity, Recording, Run, Target

from .making import (
    BLOCK,
    LIBRARY,
    broken_at,
    compiled,
    eager,
    failed,
    meta,
    only,
    point,
    rules,
    sound,
    sweep,
    target,
)

NAN = math.nan
ANYTHING = Budget(allow_fallbacks=("*",), allow_uncompiled=("*",), allow_unknown=True)
"""Allows all that can be allowed."""


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (Run(status="raised", error="ValueError: bad prompt"), "ValueError: bad prompt"),
        (Run(status="exited", exit_code=3, error="sys.exit(3)"), "sys.exit(3)"),
        (Run(status="exited"), "it exited"),
        (Run(status="interrupted"), "it was interrupted"),
    ],
)
def test_run_that_did_not_end_well(run: Run, said: str) -> None:
    found = only(sound(meta=meta(run=run)), ANYTHING)
    assert (found.rule, found.message) == ("CS110", f"The workload did not end well: {said}.")


@pytest.mark.parametrize(
    "run", [None, Run(status="ok"), Run(status="ok", exit_code=0), Run(status="exited", exit_code=0)]
)
def test_run_that_ended_well(run: Run | None) -> None:
    assert rules(sound(meta=meta(run=run)), ANYTHING) == []


def test_sweep_that_was_cut_short() -> None:
    assert rules(sound(sweeps=(sweep(completed=False),)), ANYTHING) == ["CS111"]
    assert rules(sound(sweeps=(replace(sweep(), points=()),)), ANYTHING) == ["CS111"]


def test_sweep_that_left_out_a_value_of_an_axis() -> None:
    found = only(sound(sweeps=(sweep(axes={"text_len": (4, 7, 77)}),)), ANYTHING)
    assert (found.rule, found.message) == ("CS111", "The sweep of model never ran text_len=7.")


def test_sweep_in_which_nothing_was_compiled_is_not_hidden_by_another() -> None:
    idle = sweep(point(5), point(6), workload="idle")
    found = only(sound(sweeps=(sweep(), idle)), ANYTHING)
    assert (found.rule, found.message) == ("CS101", "Nothing was compiled in the sweep of idle.")


def test_point_that_raised() -> None:
    raised = point(77, status="error", error="IndexError: out of range")
    found = only(sound(sweeps=(sweep(point(4), raised),)), ANYTHING)
    assert found.rule == "CS112"
    assert found.message == "model raised at text_len=77: IndexError: out of range"


def test_nothing_compiled() -> None:
    empty = Recording(meta=meta())
    assert only(empty, ANYTHING).rule == "CS101"
    attempts = only(Recording(meta=meta(), code_objects=(BLOCK,), compilations=(failed(),)), ANYTHING)
    assert "1 attempt made no graph. First error: BackendCompilerFailed: backend said no" in attempts.message


@pytest.mark.parametrize(
    ("status", "rule", "says"),
    [
        ("never_reached", "CS102", "was never reached"),
        ("inlined", "CS103", "it was inlined into attend"),
        ("cached", "CS104", "compiled before the recording began"),
        ("skipped", "CS105", "was skipped by Dynamo and ran eagerly"),
        ("compiled", "CS102", "is reported as compiled, but no compilation of it was recorded"),
    ],
)
def test_target_that_was_not_compiled_says_what_became_of_it_and_what_was_compiled(
    status: str, rule: str, says: str
) -> None:
    gone = Target(selector="Layer.forward", status=status, compiles=0, inlined_into=LIBRARY.id)  # type: ignore[arg-type]
    recording = sound(code_objects=(BLOCK, LIBRARY), targets=(target(), gone))
    found = only(recording, Budget())
    assert found.rule == rule
    assert says in found.message
    assert "these were compiled: Block.forward" in found.message
    assert found.key is None, "nobody can accept it"
    assert rules(recording, Budget(allow_uncompiled=("Layer.*",))) == []


def test_target_that_was_inlined_is_not_seen_whatever_it_counts() -> None:
    inlined = target(status="inlined", inlined_into=BLOCK.id)
    assert rules(sound(targets=(inlined,)), Budget()) == ["CS103"]


def test_target_of_which_resume_functions_alone_were_compiled() -> None:
    assert rules(sound(targets=(target(compiles=0, resumed=2),)), Budget()) == ["CS102"]


def test_target_that_tells_of_more_compilations_than_there_are_is_a_finding() -> None:
    (target,) = sound().targets
    found = only(sound(targets=(replace(target, compiles=target.compiles + 1),)), Budget())
    assert found.rule == "CS115"
    assert f"{target.compiles + 1} compilations of target {target.selector}, and holds" in found.message


def test_budget_speaks_of_its_own_targets_alone() -> None:
    gone = Target(selector="Layer.forward", status="never_reached", compiles=0)
    recording = sound(targets=(target(), gone))
    assert rules(recording, Budget(targets=("Block.forward",))) == []
    assert rules(recording, Budget(targets=("Layer.forward",))) == ["CS102"]


def test_function_and_pattern_of_one_name_are_one_target() -> None:
    twice = sound(targets=(target(), target()))
    for targets in ((), ("Block.forward",)):
        assert rules(twice, Budget(targets=targets, max_compiles=1)) == ["CS201"]


def test_target_that_the_recording_does_not_know() -> None:
    found = only(sound(), Budget(targets=("Blok.forward",)))
    assert found.rule == "CS106"
    assert "Blok.forward" in found.message
    assert "these were compiled: Block.forward" in found.message


def test_target_may_be_a_pattern_over_what_was_compiled() -> None:
    recording = sound(targets=())
    for pattern in ("Block.forward", "forward", "Bl*", "src/pkg/model.py:Block.forward"):
        assert rules(recording, Budget(targets=(pattern,))) == []
        assert rules(recording, Budget(targets=(pattern,), max_compiles=1)) == ["CS201"]


def test_runs_that_were_not_counted() -> None:
    recording = sound(meta=meta(counts_runs=False))
    assert rules(recording, Budget()) == ["CS113"]
    assert rules(recording, Budget(allow_fallbacks=("stance", "Block.forward"))) == ["CS113"]
    assert rules(recording, Budget(allow_fallbacks=("*",))) == []


def test_sweep_that_varied_nothing() -> None:
    alone = sound(sweeps=(sweep(point(4)),))
    assert rules(alone, Budget(no_shape_recompile=True)) == ["CS107"]
    assert rules(alone, Budget()) == []
    beside = sound(sweeps=(sweep(point(4)), sweep()))
    assert rules(beside, Budget(no_shape_recompile=True)) == [], "one sweep varied something"
    assert rules(sound(sweeps=()), Budget(no_shape_recompile=True)) == []


def test_own_code_that_was_not_seen() -> None:
    budget = Budget(max_own_graph_breaks=0, own=("src/pkgg",))
    assert only(sound(), budget).rule == "CS108"
    assert rules(sound(graph_breaks=(broken_at(file="src/pkgg/a.py"),)), budget) == ["CS302"]


@pytest.mark.parametrize(
    ("changes", "budget", "says"),
    [
        (
            {"compilations": (compiled("0/0", operators=None), compiled("0/1"))},
            Budget(min_operators=6),
            "Operators were not counted for 1 compilation.",
        ),
        (
            {"compilations": (compiled("0/0", guards=None), compiled("0/1"))},
            Budget(max_guards=40),
            "Guards were not counted for 1 compilation.",
        ),
        ({"sweeps": (sweep(point(4), point(7, parity=None)),)}, Budget(max_relative_l2=1.0), "eager at 1 point of 2:"),
        ({"sweeps": ()}, Budget(max_relative_l2=1.0), "eager as there was no sweep:"),
    ],
)
def test_limit_on_what_was_not_looked_at(changes: dict[str, object], budget: Budget, says: str) -> None:
    found = only(sound(**changes), budget)
    assert found.rule == "CS117"
    assert says in found.message


@pytest.mark.parametrize(
    "changes",
    [
        {"compilations": (compiled("0/0", seconds=NAN), compiled("0/1"))},
        {"compilations": (compiled("0/0", seconds=-1.0), compiled("0/1"))},
        {"compilations": (compiled("0/0", seconds=math.inf), compiled("0/1"))},
        {"compilations": (compiled("0/0", guards=-1), compiled("0/1"))},
        {"compilations": (compiled("0/0", operators=-1), compiled("0/1"))},
        {"graph_breaks": (broken_at(events=0),)},
        {"fallbacks": (eager(calls=-1),)},
        {"targets": (target(resumed=-1),)},
        {"sweeps": (sweep(point(4, seconds=NAN), point(7)),)},
        {"sweeps": (sweep(point(4, parity=Parity(max_abs=NAN, relative_l2=0, psnr=None, bitwise=False)), point(7)),)},
        {"sweeps": (sweep(point(4, parity=Parity(max_abs=0, relative_l2=NAN, psnr=None, bitwise=False)), point(7)),)},
    ],
)
def test_number_that_cannot_be(changes: dict[str, object]) -> None:
    assert only(sound(**changes), ANYTHING).rule == "CS115"


def test_distance_that_is_no_number_is_over_any_limit() -> None:
    lost = point(4, parity=Parity(max_abs=NAN, relative_l2=NAN, psnr=None, bitwise=False))
    found = {finding.rule for finding in judge(sound(sweeps=(sweep(lost, point(7)),)), Budget(max_relative_l2=9.0))}
    assert found == {"CS115", "CS504"}
