"""Every scenario ends as it should, and says why. They run in one process, each beside all others."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from compilescope.cli import main
from compilescope.storage import load

from .outcomes import run_pytest

if TYPE_CHECKING:
    from compilescope.record import Recording

    from .outcomes import Session

SUITES = Path(__file__).parent / "suites"
EXPECTED = {
    "test_fixture_skips": ("skipped", "nothing here"),
    "test_fixture_is_expected_to_fail": ("xfailed", ""),
    "test_fixture_fails": ("error", "^(?!.*compilescope:)[\\s\\S]*no device"),
    "TestWhoseSetupSkips::test_never_runs": ("skipped", "nothing here"),
    "test_general_shapes": ("passed", ""),
    "test_marked_by_a_late_hook": ("failed", "CS203"),
    "test_parent_alone_is_compiled": ("failed", r"CS102  Target Child\.forward was never reached"),
    "test_child_with_its_parent_s_forward_is_compiled": ("passed", ""),
    "test_grandchild_is_a_child": ("passed", ""),
    "test_cache_is_emptied_between_the_shapes": ("failed", r"CS107  The cache was emptied between two compilations"),
    "test_explained_between_the_shapes": ("failed", r"CS107  The cache was emptied between two compilations"),
    "test_nothing_is_called_after_freeze": ("failed", r"CS101  Nothing that was compiled was called after freeze\(\)"),
    "test_eager_after_freeze": ("failed", r"CS401  Block\.forward ran eagerly after freeze\(\), 1 call \(stance\)"),
    "test_generator_within_after_freeze": (
        "failed",
        r"CS401  sines ran eagerly after freeze\(\), calls were not counted \(unsupported\)",
    ),
    "test_limit_met_in_the_warmup": ("failed", r"CS204  Block\.forward ran eagerly after freeze\(\), 1 call"),
    "test_two_patterns": ("passed", ""),
    "test_instance_and_method": ("passed", ""),
    "test_function": ("passed", ""),
    "test_static_shapes": ("failed", r"CS203  Block\.forward was recompiled 2 times .* \(4 -> 5\)"),
    "test_forward_without_gradients": ("passed", ""),
    "test_one_size_alone": ("failed", r"CS107  Every call of scaled had the same sizes"),
    "test_nothing_compiled": ("failed", r"CS102  Target Block\.forward was never reached; nothing was compiled"),
    "test_something_else_compiled": ("failed", r"CS102 .* never reached; these were compiled: Other\.forward"),
    "test_forced_eager": ("failed", r"CS401  Block\.forward ran eagerly \(stance, 1 call\)"),
    "test_forced_eager_allowed": ("passed", ""),
    "TestOfClass::test_is_held_to_its_marks": ("failed", "CS102"),
    "UnitTest::test_green": ("passed", ""),
    "UnitTest::test_red": ("failed", "CS102"),
    "test_one_variant_marked[4]": ("passed", ""),
    "test_one_variant_marked[5]": ("failed", "CS102"),
    "test_kind_within_budget": ("passed", ""),
    "test_kind_not_in_budget": ("failed", r"CS205  scaled was recompiled once for dtype, 0 allowed"),
    "test_too_many_guards": ("failed", r"CS502 .* has \d+ guards, 0 allowed"),
    "test_graph_break": ("failed", r"CS301  1 graph break, 0 allowed: print .*\[subject\.py:\d+\]"),
    "test_graph_break_allowed": ("passed", ""),
    "test_agrees_with_check": ("failed", r"\(1 of \d findings\)"),
    "test_broken": ("xfailed", ""),
    "test_mended": ("failed", r"holds now: remove its broken=\.\n.*was broken: shapes are static still"),
    "test_broken_and_nothing_compiled": ("failed", r"does not excuse what was not recorded\)\n.*CS101"),
    "test_plain_xfail": ("xfailed", ""),
    "test_own_failure": ("failed", "AssertionError"),
    "test_skipped": ("skipped", "not here"),
    "test_frozen": ("passed", ""),
    "test_compiles_after_freeze": ("failed", r"CS201  Block\.forward was compiled after freeze\(\).*: size of"),
    "test_cold_freeze": ("failed", r"CS101  Nothing was compiled before freeze\(\)"),
    "test_fixture_asked_for_late": ("failed", r"CS201  Block\.forward was compiled after freeze\(\)"),
    "test_fixture_alone": ("passed", ""),
    "test_counts_what_its_fixtures_compile": ("failed", r"CS201  Block\.forward was compiled once, 0 allowed"),
    "test_isolated[1]": ("passed", ""),
    "test_isolated[2]": ("passed", ""),
    "test_flaky": ("passed", ""),
    "test_flaky_in_vain": ("failed", r"CS203  Block\.forward was recompiled once"),
    "test_unknown_argument": ("error", r"compile_budget has no argument 'compile'\. Did you mean compiles"),
    "test_target_without_code": ("error", "function len cannot be a target"),
    "test_marked_too_late": ("failed", "marks that were not there at collection"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the scenarios run."""
    place = tmp_path_factory.mktemp("scenarios")
    shutil.copy(SUITES / "subject.py", place)
    shutil.copy(SUITES / "scenarios.py", place / "test_scenarios.py")
    shutil.copy(SUITES / "reruns.py", place / "conftest.py")
    return place


@pytest.fixture(scope="module")
def session(folder: Path) -> Session:
    """Run them once."""
    return run_pytest(folder, "--strict-markers", "--compilescope-report=json:all.json")


@pytest.fixture(scope="module")
def whole(session: Session, folder: Path) -> Recording:
    """Return what the report of all tests holds."""
    assert session.code == 1
    return load(folder / "all.json")


@pytest.mark.parametrize("name", EXPECTED)
def test_scenario(session: Session, name: str) -> None:
    status, why = EXPECTED[name]
    outcome = session.tests[name]
    assert outcome.status == status, outcome.text
    assert re.search(why, outcome.text), outcome.text


def test_every_scenario_is_expected(session: Session) -> None:
    assert sorted(session.tests) == sorted(EXPECTED)


def test_failure_is_explained_in_one_screen(session: Session) -> None:
    titles = session.tests["test_static_shapes"].sections
    assert list(titles)[-1] == "compilescope"
    shown = titles["compilescope"]
    assert re.search(r"size\s+x\.size\(\)\[0\]: 4 -> 5, 5 -> 7  \(shape-driven\)", shown)
    assert "test_scenarios.py::test_static_shapes" in shown
    assert len(shown.splitlines()) <= 40
    assert max(map(len, shown.splitlines())) <= 100


def test_log_of_a_failure_is_the_test_s_own(session: Session) -> None:
    (log,) = (text for title, text in session.tests["test_static_shapes"].sections.items() if "log" in title)
    assert "from the test itself" in log
    assert len(log.splitlines()) == 1


def test_a_failure_of_the_test_itself_is_explained_too(session: Session) -> None:
    assert "1 compilation of 1 code object" in session.tests["test_own_failure"].sections["compilescope"]


def test_first_line_is_the_finding(session: Session) -> None:
    first = session.tests["test_static_shapes"].text.splitlines()[0]
    assert first.startswith("compilescope: Block.forward was recompiled 2 times as shapes changed")


def test_report_holds_the_findings_of_failed_tests_alone(whole: Recording) -> None:
    blamed = {finding.message.partition(": ")[0].partition("::")[2] for finding in whole.findings}
    # One that fails by its own assertion was not judged, one whose mark is wrong was not run.
    unjudged = {"test_own_failure", "test_mended", "test_marked_too_late"}
    failed = {name for name, (status, _) in EXPECTED.items() if status == "failed"}
    assert blamed == failed - unjudged | {"test_plain_xfail"}


def test_report_holds_the_last_run_of_a_test_that_ran_again(whole: Recording) -> None:
    assert sum("::test_flaky_in_vain:" in finding.message for finding in whole.findings) == 1


def test_report_tells_compilations_of_all_tests_apart(whole: Recording) -> None:
    ids = [one.id for one in whole.compilations]
    assert len(ids) == len(set(ids)) > 30
    known = set(ids)
    for one in whole.recompiles:
        assert one.recompile is not None
        assert one.recompile.closest in known
        assert {miss.id for miss in one.recompile.entries} <= known
    assert whole.meta.argv[0] == "pytest"


def test_check_finds_the_same(
    whole: Recording, folder: Path, monkeypatch: pytest.MonkeyPatch, fresh_dynamo: None
) -> None:
    monkeypatch.chdir(folder)
    limits = ("--no-shape-recompile", "--max-graph-breaks", "0")
    done = CliRunner().invoke(main, ["check", "subject.py", *limits, "--format", "json:check.json", "--quiet"])
    assert done.exit_code == 1, done.output
    of_check = [(one.rule, one.key, one.amount, one.file, one.line) for one in load(folder / "check.json").findings]
    of_plugin = [
        (one.rule, one.key, one.amount, one.file, one.line)
        for one in whole.findings
        if "::test_agrees_with_check:" in one.message
    ]
    assert sorted(of_plugin) == sorted(of_check)
    assert {rule for rule, *_ in of_plugin} == {"CS203", "CS301"}


def test_reports_are_written_as_asked(folder: Path, session: Session) -> None:
    assert json.loads((folder / "all.json").read_text(encoding="utf-8"))["meta"]["format"] == 1
    assert "all.json: " in session.output
