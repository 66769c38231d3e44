"""The parts that need no run: rulings, the ledger, and the workers of pytest-xdist."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from compilescope.errors import UsageError
from compilescope.gate import baseline
from compilescope.plugin import failure_section
from compilescope.plugin.fixture import Watch
from compilescope.plugin.judged_tests import Census
from compilescope.plugin.marks import read_mark
from compilescope.plugin.recorded_targets import target_in
from compilescope.plugin.rulings import Frozen, rule, rule_frozen
from compilescope.plugin.session_baseline import Ledger
from compilescope.plugin.xdist import Handover, Workers, hand_over
from compilescope.record import (
    CodeObject,
    Compilation,
    EntryMiss,
    Failure,
    Fallback,
    FallbackKind,
    Meta,
    Outcome,
    Recompile,
    Recording,
    Target,
)

if TYPE_CHECKING:
    from pathlib import Path

    from compilescope.plugin.rulings import Ruling

META = Meta(compilescope="0.1", torch="2.13.0", python="3.11", platform="Linux", device="cpu", counts_runs=True)
BLOCK = CodeObject(id="m.py:Block.forward", qualname="Block.forward", file="m.py", line=3)
OTHER = CodeObject(id="m.py:other", qualname="other", file="m.py", line=9)
REACHED = Target(selector="Block.forward", status="compiled", compiles=2, codes=(BLOCK.id,))
MISSED = Target(selector="Block.forward", status="never_reached", compiles=0)


def compilation(identity: str, outcome: Outcome = "compiled", code: CodeObject = BLOCK, **facts: Any) -> Compilation:
    return Compilation(id=identity, code=code.id, outcome=outcome, seconds=0.1, **facts)


def recompiled(identity: str, closest: str) -> Compilation:
    cause = Failure(
        source="x.size()[0]", guard="g", expected="4", actual="5", guard_type="TENSOR_MATCH", part="size", kind="size"
    )
    why = Recompile(
        entries=(EntryMiss(id=closest, failing=(cause,)),),
        closest=closest,
        alternatives=(closest,),
        shape_driven=True,
        causes=(cause,),
    )
    return compilation(identity, recompile=why)


def recording(*compilations: Compilation, targets: tuple[Target, ...] = ()) -> Recording:
    return Recording(meta=META, code_objects=(BLOCK, OTHER), compilations=compilations, targets=targets)


TWICE = recording(compilation("0/0"), recompiled("0/1", "0/0"))

TEST = "tests/test_a.py::test_one"
ENTRY = f"CS203 [test {TEST}] m.py:Block.forward: size of x.size()[0]"


def ruling(made: Recording, target: Target = REACHED, **kwargs: Any) -> Ruling:
    return rule(made, read_mark("no_shape_recompile", ("Block.forward",), kwargs), (target,))


# --- rulings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "target", "broken", "status"),
    [
        (recording(compilation("0/0")), replace(REACHED, compiles=1), None, "held"),
        (recording(compilation("0/0")), replace(REACHED, compiles=1), "why", "fixed"),
        (TWICE, REACHED, None, "failed"),
        (TWICE, REACHED, "why", "broken"),
        (recording(compilation("0/0", code=OTHER)), MISSED, None, "failed"),
        (recording(compilation("0/0", code=OTHER)), MISSED, "why", "failed"),
        (recording(), MISSED, "why", "failed"),
    ],
)
def test_status_of_a_ruling(made: Recording, target: Target, broken: str | None, status: str) -> None:
    assert ruling(made, target, broken=broken).status == status


def test_broken_excuses_no_claim_of_which_a_part_was_not_seen() -> None:
    anew = recording(*TWICE.compilations, compilation("0/0#2"))
    judged = ruling(anew, broken="why")
    assert [one.rule for one in judged.findings] == ["CS203", "CS107"]
    assert judged.status == "failed"


def test_each_mark_is_held_to_its_own_targets() -> None:
    kept, also = replace(REACHED, compiles=1), replace(REACHED, selector="also", compiles=1)
    made = recording(compilation("0/0"), targets=(kept, also, replace(MISSED, selector="missed")))
    marks = (("Block.forward", "also"), ("missed",))
    scope: Any = SimpleNamespace(recording=made)
    watch = Watch(scope, [read_mark("no_shape_recompile", targets, {}) for targets in marks])
    assert watch.claimed == 2
    assert [[one.rule for one in judged.findings] for judged in watch.rulings()] == [[], ["CS102"]]


def test_two_targets_of_one_name_are_both_asked_for() -> None:
    claim = read_mark("no_shape_recompile", ("a", "b"), {})
    one = recording(compilation("0/0"))
    both = rule(one, claim, (MISSED, replace(REACHED, compiles=1)))
    assert [finding.rule for finding in both.findings] == ["CS102"]
    assert rule(one, claim, (replace(REACHED, compiles=1),) * 2).findings == ()


@pytest.mark.parametrize("outcome", ["compiled", "failed", "limit", "skipped"])
def test_whatever_is_tried_after_a_freeze_counts(outcome: Outcome) -> None:
    made = recording(compilation("0/0"), compilation("0/1", outcome))
    assert [finding.rule for finding in rule_frozen(made, frozen(made, 1), 2).findings] == ["CS201"]
    assert rule_frozen(made, frozen(made, 2), 2).status == "held"


def frozen(made: Recording, compilations: int, *, served: int = 1) -> Frozen:
    """Freeze a recording behind its first compilations."""
    return Frozen(replace(made, compilations=made.compilations[:compilations]), served)


@pytest.mark.parametrize(
    ("kind", "code"), [("recompile_limit", "CS204"), ("stance", "CS401"), ("skipped_frame", "CS401")]
)
def test_whatever_runs_eagerly_after_a_freeze_counts(kind: FallbackKind, code: str) -> None:
    def after(calls: int) -> Recording:
        eager = Fallback(code=BLOCK.id, kind=kind, calls=calls, detail="")
        return replace(recording(compilation("0/0")), fallbacks=(eager,))

    before = Frozen(after(2), 1)
    assert rule_frozen(after(2), before, 2).status == "held", "what ran eagerly in the warm-up is no concern of freeze"
    (found,) = rule_frozen(after(5), before, 2).findings
    assert found.rule == code
    assert "ran eagerly after freeze(), 3 calls" in found.message


def test_what_runs_eagerly_for_the_first_time_after_a_freeze_counts_though_its_calls_were_not_counted() -> None:
    inside = Fallback(code=OTHER.id, kind="unsupported", calls=None, detail="")
    warm = recording(compilation("0/0"))
    after = replace(warm, fallbacks=(inside,))
    (found,) = rule_frozen(after, Frozen(warm, 1), 2).findings
    assert (found.rule, found.message) == (
        "CS401",
        "other ran eagerly after freeze(), calls were not counted (unsupported)",
    )
    assert rule_frozen(after, Frozen(after, 1), 2).status == "held"


def test_freeze_asks_that_something_compiled_is_called() -> None:
    made = recording(compilation("0/0"))
    assert [one.rule for one in rule_frozen(made, frozen(made, 1), 1).findings] == ["CS101"]
    assert rule_frozen(made, frozen(made, 1), 2).status == "held"


def test_cache_that_was_emptied_between_shapes_proves_nothing() -> None:
    anew = recording(compilation("0/0"), replace(compilation("0/0"), id="0/0#2"))
    assert [one.rule for one in ruling(anew).findings] == ["CS107"]
    assert ruling(recording(compilation("0/0"), compilation("1/0")), REACHED).findings == ()


def test_a_frame_with_nothing_to_compile_is_no_compilation_after_a_freeze() -> None:
    made = recording(compilation("0/0"), compilation("1/0", "empty", OTHER))
    assert rule_frozen(made, frozen(made, 1), 2).status == "held"


def test_failed_attempts_are_no_warmup() -> None:
    made = recording(compilation("0/0", "failed"))
    assert [one.rule for one in rule_frozen(made, frozen(made, 1), 2).findings] == ["CS101"]


# --- what a failure says --------------------------------------------------------------------------


def test_failure_prints_the_command_that_accepts_it(tmp_path: Path) -> None:
    text = failure_section.failure([ruling(TWICE)], "tests/test_a.py::test_x[a b]", tmp_path / "b.json")
    command = f"pytest --compilescope-baseline={tmp_path}/b.json --compilescope-update-baseline"
    assert text.endswith(f"To accept this: {command} 'tests/test_a.py::test_x[a b]'")


def test_what_cannot_be_accepted_has_no_such_command(tmp_path: Path) -> None:
    assert "To accept" not in failure_section.failure([ruling(recording(), MISSED)], "t.py::t", tmp_path / "b.json")


def test_findings_of_several_marks_are_reported_once() -> None:
    (one,) = failure_section.findings_of("t.py::t", [ruling(TWICE), ruling(TWICE), ruling(TWICE, broken="why")])
    assert one.message.startswith("t.py::t: Block.forward was recompiled once")


# --- the ledger -----------------------------------------------------------------------------------


def test_ledger_accepts_what_was_found_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    first = Ledger.open(path, updating=True)
    assert first.hold(TEST, [ruling(TWICE)], META.torch)[0].status == "held"
    assert first.write() == f"{path}: 1 entry newly accepted."

    later = Ledger.open(path, updating=False)
    assert later.hold(TEST, [ruling(TWICE)], META.torch)[0].status == "held"
    assert later.hold(TEST, [ruling(TWICE)], META.torch)[0].status == "held"
    worse = recording(*TWICE.compilations, recompiled("0/2", "0/1"))
    assert later.hold(TEST, [ruling(worse, replace(REACHED, compiles=3))], META.torch)[0].status == "failed"
    assert later.hold(TEST, [ruling(TWICE)], "2.14.0")[0].status == "failed"
    assert later.write() is None


def test_ledger_accepts_nothing_of_a_test_that_was_not_seen_whole(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "baseline.json", updating=True)
    assert ledger.hold(TEST, [ruling(TWICE, MISSED)], META.torch)[0].status == "failed"
    assert ledger.found == {}


def test_ledger_leaves_what_is_broken_to_its_mark(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "baseline.json", updating=True)
    assert ledger.hold(TEST, [ruling(TWICE, broken="why")], META.torch)[0].status == "broken"


def test_ledger_keeps_what_other_tests_and_versions_were_accepted_with(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    kept = {"2.11": {"CS201 f": 2}, "2.13": {"CS301 print": 1}}
    baseline.write(baseline.Baseline(kept), path)
    ledger = Ledger.open(path, updating=True)
    ledger.hold(TEST, [ruling(TWICE)], META.torch)
    ledger.write()
    after = baseline.read(path).torch
    assert after["2.11"] == kept["2.11"]
    assert after["2.13"] == {"CS301 print": 1, ENTRY: 1}


def test_ledger_keeps_what_another_session_has_accepted_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    ours, theirs = Ledger.open(path, updating=True), Ledger.open(path, updating=True)
    ours.hold(TEST, [ruling(TWICE)], META.torch)
    theirs.note({"2.13": {"CS301 print": 1}, "2.14": {"CS301 print": 2}}, {})
    assert theirs.write() == f"{path}: 2 entries newly accepted."
    assert ours.write() == f"{path}: 1 entry newly accepted."
    assert baseline.read(path).torch == {
        "2.13": {"CS301 print": 1, ENTRY: 1},
        "2.14": {"CS301 print": 2},
    }


def test_ledger_keeps_the_most_that_any_worker_has_met(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    ledger = Ledger.open(path, updating=True)
    for amount in (1, 3, 2):
        ledger.note({"2.13": {ENTRY: amount}}, {"2.13": {ENTRY: amount}})
    ledger.write()
    assert baseline.read(path).torch == {"2.13": {ENTRY: 3}}
    later = Ledger(path, baseline.read(path), updating=False, met=ledger.met)
    assert later.stale() == ()


def test_ledger_lowers_nothing_that_was_accepted_more_often(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    baseline.write(baseline.Baseline({"2.13": {ENTRY: 3}}), path)
    ledger = Ledger.open(path, updating=True)
    ledger.hold(TEST, [ruling(TWICE)], META.torch)
    assert ledger.write() == f"{path}: 0 entries newly accepted."
    assert baseline.read(path).torch == {"2.13": {ENTRY: 3}}


def test_ledger_tells_what_is_accepted_more_often_than_met(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    printed, item = f"CS301 [test {TEST}] print", f"CS301 [test {TEST}] item"
    kept = {"2.11": {"CS201 f": 2}, "2.13": {ENTRY: 2, printed: 1, item: 3, "CS301 of check alone": 1}}
    baseline.write(baseline.Baseline(kept), path)
    ledger = Ledger.open(path, updating=False)
    assert ledger.stale() == (), "before any test has run, nothing is known"
    ledger.hold(TEST, [ruling(TWICE), ruling(TWICE, broken="why")], META.torch)
    ledger.note({}, {"2.13": {item: 3}})
    assert [str(one) for one in ledger.stale()] == [
        f"{ENTRY} (accepted 2, found 1)",
        f"{printed} (accepted 1, found 0)",
    ]


def test_what_is_accepted_of_one_test_excuses_no_other_and_no_check(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    first = Ledger.open(path, updating=True)
    first.hold(TEST, [ruling(TWICE)], META.torch)
    first.write()
    later = Ledger.open(path, updating=False)
    assert later.hold("tests/test_b.py::test_one", [ruling(TWICE)], META.torch)[0].status == "failed"
    assert baseline.of_programs(baseline.read(path).accepted("2.13")) == {}
    rewritten = baseline.update(baseline.read(path), (), "2.13")
    assert rewritten.accepted("2.13") == {ENTRY: 1}, "a check drops what it no longer finds, and nothing of a test"


def test_ledger_that_is_missing_says_how_to_begin_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--compilescope-update-baseline creates it"):
        Ledger.open(tmp_path / "none.json", updating=False)


def test_census_is_whole_where_every_expected_test_was_judged_by_some_worker() -> None:
    one, other = Census({"a", "b"}, {"a"}), Census({"a", "b"}, {"b"})
    assert not one.is_whole
    one.add(other)
    assert one.is_whole
    one.add(Census({"a", "b"}, set(), partial=True))
    assert not one.is_whole
    assert not Census().is_whole, "nothing was judged"


# --- pytest-xdist ---------------------------------------------------------------------------------


def node(name: str, config: Any = None) -> SimpleNamespace:
    made = SimpleNamespace(gateway=SimpleNamespace(id=name))
    if config is not None:
        made.workeroutput = config.workeroutput
    return made


def test_controller_takes_what_every_worker_hands_over() -> None:
    workers = Workers()
    for name, made in (("gw1", None), ("gw0", TWICE)):
        config: Any = SimpleNamespace(workeroutput={})
        hand_over(config, Handover(made, {"2.13": {"CS201 f": 1}}, {}, Census()))
        workers.expect(node(name))
        workers.take(node(name, config), None)
    assert [handover.recording for handover in workers.handed()] == [TWICE, None]
    assert workers.missing() == []


@pytest.mark.parametrize(
    ("output", "error", "says"),
    [
        (None, "Not properly terminated", "Worker gw0 crashed (Not properly terminated)"),
        ({}, None, "Worker gw0 ended without handing over"),
        ({"compilescope": ""}, None, "Worker gw0 handed over an unreadable result"),
        ({"compilescope": '{"recording": {}}'}, None, "Worker gw0 handed over an unreadable result"),
    ],
)
def test_worker_that_hands_over_nothing_is_missing(output: object, error: object, says: str) -> None:
    workers = Workers()
    workers.expect(node("gw0"))
    workers.take(node("gw0", None if output is None else SimpleNamespace(workeroutput=output)), error)
    (sentence,) = workers.missing()
    assert sentence.endswith("what its tests compiled is missing.")
    assert sentence.startswith(says)


def test_worker_that_never_came_up_is_missing() -> None:
    workers = Workers()
    workers.take(node("gw0"), "could not start")
    assert workers.missing()


def test_worker_that_never_went_down_is_missing() -> None:
    workers = Workers()
    workers.expect(node("gw0"))
    assert workers.missing()


# --- names in a finished recording ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "status", "compiles"),
    [
        ("Block.forward", "compiled", 2),
        ("*.forward", "compiled", 2),
        ("m.py:Block.forward", "compiled", 2),
        ("forward", "compiled", 2),
        ("Block", "never_reached", 0),
        ("other", "never_reached", 0),
    ],
)
def test_pattern_in_a_recording(pattern: str, status: str, compiles: int) -> None:
    found = target_in(TWICE, pattern)
    assert (found.status, found.compiles) == (status, compiles)


def test_what_was_tried_in_vain_is_skipped() -> None:
    beside = compilation("1/0", code=OTHER)
    assert target_in(recording(beside, compilation("0/0", "failed")), "Block.forward").status == "skipped"
    assert target_in(recording(beside), "Block.forward").status == "never_reached"


def test_target_has_its_own_resume_functions_and_no_others() -> None:
    mine, foreign = (
        replace(code, id=f"{code.id}-resumed", qualname="torch_dynamo_resume_in_f_at_5", resumes=code.id)
        for code in (BLOCK, OTHER)
    )
    made = recording(*(compilation(code.id, code=code) for code in (BLOCK, OTHER, mine, foreign)))
    found = target_in(replace(made, code_objects=(BLOCK, OTHER, mine, foreign)), "Block.forward")
    assert (found.compiles, found.resumed, found.codes) == (1, 1, (BLOCK.id, mine.id))


def test_the_recorder_s_own_word_holds() -> None:
    inlined = Target(selector="Block.forward", status="inlined", compiles=0)
    assert target_in(recording(compilation("0/0"), targets=(inlined,)), "Block.forward") is inlined
