"""What the baseline accepts in vain is told at the end of a run that could know, and of no other."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from compilescope.gate.baseline import Baseline, read, write

from .outcomes import run_pytest

if TYPE_CHECKING:
    from pathlib import Path

# Used in this process only where an inner run does not load torch: what it loads is thrown away behind it.
pytest_plugins = ["pytester"]

STALE = "CS301 [test tests/test_gone.py::test_gone] print in a.py:f: print(x)"
TOLD = f"*fixed: {STALE.replace('[', '[[]')} (accepted 1, found 0)"
# Stands in for what records a test, which would load torch.
CONFTEST = """
import pytest

@pytest.fixture
def _compilescope_watch(request):
    yield
    reporting = request.config.pluginmanager.get_plugin("compilescope-report")
    if reporting is not None:
        reporting.ledger.hold(request.node.nodeid, (), "2.13.0")
        reporting.census.judged.add(request.node.nodeid)

@pytest.fixture
def compilescope(_compilescope_watch):
    pass
"""
TESTS = """
import pytest

def test_first(compilescope): pass

def test_second(compilescope): pass

def test_other(): assert {holds}
"""
BASELINE = "--compilescope-baseline=b.json"
UPDATE = "--compilescope-update-baseline"


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite with two tests of ours, and a baseline that accepts what none of them is found with."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS.format(holds=True))
    write(Baseline({"2.13": {STALE: 1}, "2.11": {"CS301 other": 1}}), pytester.path / "b.json")
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> str:
    return suite.runpytest_inprocess("-p", "no:randomly", *arguments).stdout.str()


@pytest.mark.parametrize("arguments", [(), (".",), ("-k", "test"), ("--deselect", "none.py"), ("-v", "-x")])
def test_entry_that_no_test_was_found_with_is_told_of(suite: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    result = suite.runpytest_inprocess("-p", "no:randomly", BASELINE, *arguments)
    result.stdout.fnmatch_lines(["b.json accepts more findings than any test had.*", TOLD])
    result.stdout.no_fnmatch_line("*CS301 other*")
    assert result.ret == pytest.ExitCode.OK
    assert STALE in read(suite.path / "b.json").accepted("2.13")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "first"),
        ("--deselect", "{file}::test_second"),
        ("{file}::test_first",),
        ("{file}",),
        ("--ignore", "elsewhere"),
        ("--lf",),
        ("--co",),
        ("-m", "slow"),
    ],
)
def test_run_of_a_part_tells_of_no_entry(suite: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    (file,) = suite.path.glob("test_*.py")
    told = run(suite, BASELINE, *(argument.format(file=file.name) for argument in arguments))
    assert STALE not in told


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\npytest.skip('not here', allow_module_level=True)",
        "import pytest\n@pytest.mark.skip(reason='not here')\ndef test_third(compilescope): pass",
        "import pytest\n@pytest.fixture\ndef broken(): 1 / 0\ndef test_third(compilescope, broken): pass",
    ],
    ids=["module_skipped", "test_skipped", "never_begun"],
)
def test_run_in_which_a_test_could_not_be_judged_tells_of_no_entry(suite: pytest.Pytester, text: str) -> None:
    suite.makepyfile(test_third=text)
    assert STALE not in run(suite, BASELINE)


def test_test_of_others_that_never_begins_keeps_nothing_from_being_told(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_third="import pytest\n@pytest.mark.skip(reason='not here')\ndef test_third(): pass")
    assert STALE in run(suite, BASELINE)


@pytest.mark.parametrize(("entries", "more"), [(5, None), (6, "1 other entry"), (7, "2 other entries")])
def test_five_entries_are_listed_and_the_others_counted(suite: pytest.Pytester, entries: int, more: str | None) -> None:
    write(Baseline({"2.13": {f"{STALE} {place}": 1 for place in range(entries)}}), suite.path / "b.json")
    told = run(suite, BASELINE)
    assert told.count("  fixed: ") == 5
    assert ("other entr" in told) == (more is not None)
    assert more is None or f"  ... and {more}." in told


def test_run_that_stopped_at_a_failure_tells_of_no_entry(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_a_fails="def test_fails(): assert False")
    assert STALE not in run(suite, BASELINE, "-x")
    assert STALE in run(suite, BASELINE), "a test that is not ours may fail"


def test_folder_that_holds_all_tests_of_the_project_may_be_named(suite: pytest.Pytester) -> None:
    (file,) = suite.path.glob("test_*.py")
    suite.mkdir("tests")
    file.rename(suite.path / "tests" / file.name)
    suite.makeini("[pytest]\ntestpaths = tests")
    assert STALE in run(suite, BASELINE, "tests")
    assert STALE in run(suite, BASELINE)


def test_workers_judge_all_tests_together(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("-p", "no:randomly", "-n", "2", BASELINE)
    result.stdout.fnmatch_lines([TOLD])


@pytest.mark.parametrize("arguments", [("--co",), ("-k", "none"), ("-k", "other"), ("--fixtures",)])
def test_baseline_is_not_begun_by_a_run_that_judged_no_test(suite: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    (suite.path / "b.json").unlink()
    assert "No test was checked, so b.json was not written." in run(suite, BASELINE, UPDATE, *arguments)
    assert not (suite.path / "b.json").exists()


def test_baseline_is_begun_by_a_run_that_found_nothing(suite: pytest.Pytester) -> None:
    (suite.path / "b.json").unlink()
    run(suite, BASELINE, UPDATE)
    assert read(suite.path / "b.json") == Baseline()


def test_recorded_tests_tell_what_is_stale(tmp_path: Path) -> None:
    test = """
        import pytest, torch

        def double(x):
            return x * 2

        @pytest.mark.no_shape_recompile("double")
        def test_static():
            f = torch.compile(double, backend="eager", dynamic=False)
            f(torch.ones(3)), f(torch.ones(4))
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(test))
    begun = run_pytest(tmp_path, BASELINE, UPDATE)
    assert "b.json: 1 entry newly accepted." in begun.output
    accepted = read(tmp_path / "b.json").torch
    ((minor, entries),) = accepted.items()
    write(Baseline({minor: {**entries, STALE: 1}}), tmp_path / "b.json")
    told = run_pytest(tmp_path, BASELINE)
    assert told.code == 0
    assert f"fixed: {STALE} (accepted 1, found 0)" in told.output
    assert not any(entry in told.output for entry in entries)
