"""Totals, loud conditions, the verdict and the sentence of validation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compilescope.analysis.summary import alarms, display_names, gist, listed, totals, validation, verdict
from compilescope.record import (
    CodeObject,
    Compilation,
    CompileError,
    Fallback,
    GraphBreak,
    Meta,
    Outcome,
    Recompile,
    Recording,
    Run,
    Sweep,
    SweepPoint,
    Target,
)

BLOCK = CodeObject(id="m.py:Block.forward", qualname="Block.forward", file="m.py", line=3)
RESUMED = CodeObject(id="m.py:resumed", qualname="torch_dynamo_resume_in_f_at_5", file="m.py", line=5, resumes=BLOCK.id)
LIMIT = CompileError(kind="recompile_limit", type="FailOnRecompileLimitHit", message="hard failure")


def attempt(outcome: Outcome = "compiled", code: CodeObject = BLOCK, **facts: object) -> Compilation:
    return Compilation(id="0/0", code=code.id, outcome=outcome, seconds=1.0, **facts)


def recording(*attempts: Compilation, run: Run | None = None, counts_runs: bool = True, **facts: object) -> Recording:
    meta = Meta(
        compilescope="0",
        torch="2.13.0",
        python="3.11",
        platform="Linux",
        device="cpu",
        config={"recompile_limit": 8},
        counts_runs=counts_runs,
        run=run,
    )
    return Recording(meta=meta, code_objects=(BLOCK, RESUMED), compilations=attempts, **facts)


def names(found: Recording) -> list[str]:
    return [alarm.name for alarm in alarms(found)]


def test_totals_tell_outcomes_apart() -> None:
    broke = GraphBreak(
        code=BLOCK.id, file="m.py", line=5, kind="print", registry_id=None, reason="r", events=2, skips_frame=False
    )
    sums = totals(
        recording(
            attempt(),
            attempt(recompile=Recompile(entries=(), closest="0/0", shape_driven=True)),
            attempt(recompile=Recompile(entries=(), shape_driven=None)),
            attempt(code=RESUMED),
            attempt("limit"),
            attempt("failed", error=LIMIT),
            attempt("failed"),
            attempt("skipped"),
            attempt("empty"),
            graph_breaks=(broke, broke),
        )
    )
    assert (sums.compiled, sums.codes, sums.resumes) == (4, 1, 1)
    assert (sums.recompiles, sums.shape_driven, sums.unjudged, sums.unexplained) == (2, 1, 1, 1)
    assert (sums.refused, sums.failed, sums.skipped) == (2, 1, 1)
    assert (sums.breaks, sums.events) == (1, 4)
    assert sums.seconds == 9.0


def test_a_sound_run_raises_no_alarm() -> None:
    assert names(recording(attempt(), run=Run(status="ok"))) == []
    assert (
        verdict(recording(attempt()))
        == "1 compilation of 1 code object, 0 recompiles, 0 graph breaks, 0 eager fallbacks"
    )


@pytest.mark.parametrize(
    ("run", "name", "wrong"),
    [
        (Run(status="raised", error="ValueError: x"), "raised", True),
        (Run(status="interrupted"), "interrupted", True),
        (Run(status="exited", exit_code=3), "exited", True),
        (Run(status="exited", exit_code=0), "exited", False),
    ],
)
def test_how_the_workload_ended_is_said(run: Run, name: str, *, wrong: bool) -> None:
    (alarm,) = alarms(recording(attempt(), run=run))
    assert (alarm.name, alarm.wrong) == (name, wrong)


def test_nothing_compiled_gives_the_first_error() -> None:
    error = CompileError(kind="unsupported", type="Unsupported", message="a generator")
    (alarm,) = alarms(recording(attempt("empty"), attempt("skipped", error=error)))
    assert alarm.text == "NOTHING WAS COMPILED: 1 attempt, none produced a graph. First error: Unsupported: a generator"
    assert names(recording(attempt("empty"))) == ["nothing_compiled"]
    (silent,) = alarms(recording(attempt("skipped")))
    assert silent.text.startswith("NOTHING WAS COMPILED: 1 attempt, none produced a graph")
    assert "First error" not in silent.text
    assert (
        verdict(recording())
        == "nothing was compiled, so nothing is known about recompiles, graph breaks and eager calls"
    )
    assert verdict(recording(attempt("skipped"))) == "nothing was compiled, 1 attempt skipped"


def test_a_limit_is_loud_whether_it_fell_back_or_raised() -> None:
    eager = Fallback(code=BLOCK.id, kind="recompile_limit", calls=21, detail="")
    unseen = Fallback(code=BLOCK.id, kind="recompile_limit", calls=None, detail="")
    told = [
        alarms(recording(attempt(limit=4), attempt("limit", limit=4), fallbacks=(eager,))),
        alarms(recording(attempt(), fallbacks=(unseen,))),
        alarms(recording(attempt(), attempt("failed", error=LIMIT))),
    ]
    assert [found[0].name for found in told] == ["recompile_limit"] * 3
    assert "(4) was hit by Block.forward" in told[0][0].text
    assert "21 calls ran eagerly" in told[0][0].text
    assert "eager calls were not counted" in told[1][0].text
    assert "1 attempt to compile refused" in told[2][0].text


def test_targets_that_say_nothing_are_named() -> None:
    targets = tuple(
        Target(selector=status, status=status, compiles=0)  # type: ignore[arg-type]
        for status in ("cached", "skipped", "never_reached", "inlined", "compiled")
    )
    assert names(recording(attempt(), targets=targets)) == ["never_reached", "target_skipped", "target_cached"]
    assert [alarm.text for alarm in alarms(recording(attempt(), targets=targets))] == [
        "1 target was never reached, so any claim about it is vacuous: never_reached.",
        "1 target was skipped by Dynamo and ran eagerly: skipped.",
        "1 target was compiled before the recording began, so not recorded: cached.",
    ]
    two = tuple(replace(targets[2], selector=name) for name in ("f", "g"))
    (missed,) = alarms(recording(attempt(), targets=two))
    assert missed.text == "2 targets were never reached, so any claim about them is vacuous: f, g."


def test_a_sweep_that_did_not_finish_is_named() -> None:
    bad = SweepPoint(values={"n": 1}, status="error", seconds=0.0, error="ValueError: no")
    sweep = Sweep(workload="w", order="grid", axes={"n": (1, 2)}, points=(bad,), completed=False)
    found = recording(attempt(), sweeps=(sweep,))
    assert names(found) == ["sweep_cut", "points_failed"]
    assert validation(found).startswith("Not valid as it stands (sweep cut): 1 graph of 1 code object")
    assert "swept n over 2 values (1 point)" in validation(found)


def test_points_that_raised_are_counted_among_all() -> None:
    ran, bad = SweepPoint(values={"n": 1}, status="ok", seconds=0.1), SweepPoint(values={}, status="error", seconds=0.0)
    why = replace(bad, error="ValueError: no")
    sweep = Sweep(workload="w", order="grid", axes={"n": (1, 2)}, points=(ran, bad, why, ran), completed=True)
    (alarm,) = alarms(recording(attempt(), sweeps=(sweep,)))
    assert alarm.text == "2 of 4 sweep points raised. First: ValueError: no"
    assert names(recording(attempt(), sweeps=(replace(sweep, points=(ran, ran)),))) == []


def test_what_was_not_looked_at_is_not_called_clean() -> None:
    blind = recording(attempt(), attempt(recompile=Recompile(entries=())), counts_runs=False)
    assert names(blind) == ["unexplained", "runs_not_counted"]
    assert "1 recompile (unknown whether shape-driven for 1)" in verdict(blind)
    assert "no eager fallback" not in validation(blind)
    assert "eager calls were not checked" in validation(blind)


def test_shape_driven_shares_are_words_where_they_can_be() -> None:
    def with_shape(driven: list[bool | None]) -> str:
        return verdict(recording(*(attempt(recompile=Recompile(entries=(), shape_driven=d)) for d in driven)))

    assert "2 recompiles (all shape-driven)" in with_shape([True, True])
    assert "2 recompiles (none shape-driven)" in with_shape([False, False])
    assert "1 recompile (shape-driven)" in with_shape([True])
    assert "1 recompile (not shape-driven)" in with_shape([False])
    assert "2 recompiles (1 shape-driven)" in with_shape([True, False])
    assert "2 recompiles (1 shape-driven; unknown whether shape-driven for 1)" in with_shape([True, None])


def test_a_shared_wrapper_goes_by_the_class_it_ran_for() -> None:
    wrapper = CodeObject(id="w", qualname="wrap_inline.<locals>.inner", file="w.py", line=1, owner="ReLU")
    found = Recording(meta=recording().meta, code_objects=(wrapper,))
    assert display_names(found) == {"w": "ReLU via wrap_inline"}


def test_an_error_is_told_without_its_standing_explanation() -> None:
    assert gist("recompile limit exceeded\n  Explanation: Dynamo ...") == "recompile limit exceeded"
    assert gist("plain") == "plain"


def test_lists_stay_short() -> None:
    assert listed(["a", "b", "a"]) == "a, b"
    assert listed("abcde") == "a, b, c and 2 more"
