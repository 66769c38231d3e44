"""Suites that have nothing to do with us run to the same outcomes with the plugin as without it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

# The inner runs load no torch, so that they can run in this process.
pytest_plugins = ["pytester"]

_TIME = re.compile(r" in [\d.]+s.*")

SUITES: Mapping[str, str] = {
    "module_that_skips_itself": """
        import pytest
        pytest.skip("not here", allow_module_level=True)
    """,
    "module_that_needs_what_is_not_there": """
        import pytest
        pytest.importorskip("no_such_module_at_all")
    """,
    "class_with_one_mark_and_no_list": """
        import pytest

        class TestOne:
            pytestmark = pytest.mark.filterwarnings("ignore")
            def test_plain(self): pass
    """,
    "class_with_marks_that_are_none": """
        class Helper:
            pytestmark = 3

        def test_plain(): pass
    """,
    "lazy_object_whose_class_raises": """
        class Lazy:
            @property
            def __class__(self): raise RuntimeError("not configured")

        lazy = Lazy()
        def test_plain(): pass
    """,
    "metaclass_whose_attributes_raise": """
        class Meta(type):
            def __getattribute__(cls, name): raise RuntimeError(name)

        class Strange(metaclass=Meta): pass
        del Meta
        def test_plain(): pass
    """,
    "module_that_replaces_itself": """
        import sys, types

        class Other(types.ModuleType):
            def __getattr__(self, name): raise AttributeError(name)

        def test_plain(): pass
    """,
    "names_that_change_while_they_are_read": """
        def __getattr__(name): raise AttributeError(name)

        def test_plain(): pass
    """,
}


def outcome(pytester: pytest.Pytester, *arguments: str) -> tuple[int, dict[str, int], list[str]]:
    """Return the exit code, the counts, and what was printed but for times."""
    done = pytester.runpytest_inprocess("-q", "-p", "no:randomly", "-p", "no:cacheprovider", *arguments)
    printed = [_TIME.sub("", line) for line in done.stdout.lines]
    return int(done.ret), done.parseoutcomes(), printed


def same_as_without(pytester: pytest.Pytester, *arguments: str) -> tuple[int, dict[str, int], list[str]]:
    with_it = outcome(pytester, *arguments)
    assert with_it == outcome(pytester, "-p", "no:compilescope", *arguments)
    assert not any("INTERNALERROR" in line for line in with_it[2])
    return with_it


@pytest.mark.parametrize("import_mode", ["prepend", "importlib"])
@pytest.mark.parametrize("name", SUITES)
def test_suite_runs_as_without_the_plugin(pytester: pytest.Pytester, name: str, import_mode: str) -> None:
    pytester.makepyfile(**{f"test_{name}": SUITES[name]})
    _, counts, _ = same_as_without(pytester, f"--import-mode={import_mode}")
    assert set(counts) <= {"passed", "skipped"}
    assert counts


def test_text_files_of_doctests_run_as_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.maketxtfile(test_guide=">>> 1 + 1\n2\n")
    assert same_as_without(pytester)[1] == {"passed": 1}


def test_doctests_of_a_module_that_cannot_be_imported_run_as_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(broken="import no_such_module_at_all", fine='def f():\n    """\n    >>> f()\n    """')
    counts = same_as_without(pytester, "--doctest-modules", "--doctest-ignore-import-errors")[1]
    assert counts == {"passed": 1, "skipped": 1}


def test_file_that_last_failed_passes_over_is_not_imported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_failing="def test_fails(): assert False",
        test_other="import pathlib\npathlib.Path('imported').touch()\ndef test_plain(): pass",
    )
    pytester.runpytest_inprocess("-q", "-p", "no:randomly").assert_outcomes(failed=1, passed=1)
    (pytester.path / "imported").unlink()
    pytester.runpytest_inprocess("-q", "-p", "no:randomly", "--lf").assert_outcomes(failed=1)
    assert not (pytester.path / "imported").exists()


def test_items_of_other_sorts_run_as_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        class Item(pytest.Item):
            fixturenames = None
            def runtest(self): pass

        class File(pytest.File):
            def collect(self): yield Item.from_parent(self, name="only")

        def pytest_collect_file(file_path, parent):
            if file_path.suffix == ".yaml":
                return File.from_parent(parent, path=file_path)
    """)
    pytester.makefile(".yaml", case="a: 1")
    assert same_as_without(pytester)[1] == {"passed": 1}
