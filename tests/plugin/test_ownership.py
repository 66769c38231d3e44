"""What a suite has for itself under one of our names is left alone; what is used as ours is held to, as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import compilescope.plugin.session  # noqa: F401 (an inner run throws away what it loads, and the next loads it again)

if TYPE_CHECKING:
    from collections.abc import Mapping

# The inner runs load no torch, so that they can run in this process.
pytest_plugins = ["pytester"]

UNTOUCHED = 'assert not request.config.pluginmanager.hasplugin("compilescope-runtime")'
FIXTURES: Mapping[str, str] = {
    "fixture_of_the_module": f"""
        import pytest

        @pytest.fixture
        def compilescope(): return 3

        def test_own(request, compilescope):
            assert compilescope == 3
            {UNTOUCHED}
    """,
    "fixture_of_a_class": f"""
        import pytest

        class TestOwn:
            @pytest.fixture(autouse=True)
            def compilescope(self): return 3

            def test_own(self, request):
                {UNTOUCHED}
    """,
    "argument": f"""
        import pytest

        @pytest.mark.parametrize("compilescope", [3, 3])
        def test_own(request, compilescope):
            assert compilescope == 3
            {UNTOUCHED}
    """,
    "argument_of_a_hook": f"""
        def pytest_generate_tests(metafunc): metafunc.parametrize("compilescope", [3])

        def test_own(request, compilescope):
            assert compilescope == 3
            {UNTOUCHED}
    """,
    "fixture_with_parameters": f"""
        import pytest

        @pytest.fixture(params=[3, 3])
        def compilescope(request): return request.param

        def test_own(request, compilescope):
            assert compilescope == 3
            {UNTOUCHED}
    """,
}
MARKS: Mapping[str, str] = {
    "with_another_argument": "@pytest.mark.compile_budget(5)\ndef test_own(request): {untouched}",
    "with_another_keyword": "@pytest.mark.compile_budget(ms=5)\ndef test_own(request): {untouched}",
    "without_arguments": "@pytest.mark.compile_budget\ndef test_own(request): {untouched}",
    "with_an_object_that_cannot_be_shown": "class Odd(list):\n    def __repr__(self): raise RuntimeError\n"
    "@pytest.mark.compile_budget(Odd())\ndef test_own(request): {untouched}",
    "of_a_class": "@pytest.mark.compile_budget\nclass TestOwn:\n    def test_own(self, request): {untouched}",
    "of_the_module": "pytestmark = pytest.mark.compile_budget\ndef test_own(request): {untouched}",
    "of_a_helper": "@pytest.mark.compile_budget\ndef helper(): pass\ndef test_own(request): {untouched}",
}
INI = "[pytest]\nmarkers = compile_budget(ms): how long the compiler may take"
CONFTEST = """
    def pytest_configure(config):
        config.addinivalue_line("markers", "compile_budget: how long the compiler may take")
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:randomly", "--strict-markers", *arguments)


@pytest.mark.parametrize("name", FIXTURES)
def test_own_fixture_of_our_name_is_left_alone(pytester: pytest.Pytester, name: str) -> None:
    pytester.makepyfile(FIXTURES[name])
    counts = run(pytester).parseoutcomes()
    assert counts.keys() == {"passed"}


def test_own_fixture_that_asks_for_ours_is_ours(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        @pytest.fixture
        def _compilescope_watch(): return "the watch"  # stands in for what records a test, which would load torch

        @pytest.fixture
        def compilescope(compilescope): return [compilescope]
    """)
    pytester.makepyfile("""
        def test_ours(request, compilescope):
            assert compilescope == ["the watch"]
            assert request.config.pluginmanager.hasplugin("compilescope-runtime")
            assert request.node.fixturenames[0] == "_compilescope_watch"
    """)
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.parametrize("registered", ["ini", "conftest"])
def test_mark_that_the_suite_registers_for_itself_is_left_alone(pytester: pytest.Pytester, registered: str) -> None:
    if registered == "ini":
        pytester.makeini(INI)
    else:
        pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        **{f"test_{name}": "import pytest\n" + text.format(untouched=UNTOUCHED) for name, text in MARKS.items()}
    )
    done = run(pytester)
    done.assert_outcomes(passed=len(MARKS))
    assert "compilescope ignores compile_budget: the suite registers its own." in done.stdout.lines


def test_list_of_tests_is_as_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile("import pytest\n@pytest.mark.compile_budget(5)\ndef test_own(): pass")
    lists = [
        run(pytester, "--collect-only", "-qq", *without).stdout.lines for without in ((), ("-p", "no:compilescope"))
    ]
    assert lists[0] == lists[1] != []


@pytest.mark.parametrize("ini", ["", "[pytest]\nmarkers = compile_budget(n): see Compilescope"])
def test_mark_that_is_not_the_suite_s_own_is_held_to(pytester: pytest.Pytester, ini: str) -> None:
    pytester.makeini(ini)
    pytester.makepyfile(
        **{f"test_{name}": "import pytest\n" + text.format(untouched="pass") for name, text in MARKS.items()}
    )
    done = run(pytester, "--continue-on-collection-errors")
    done.assert_outcomes(errors=len(MARKS))
    done.stdout.fnmatch_lines(["*decorator of f. Write @pytest.mark.compile_budget(targets=f)*"])
    done.stdout.fnmatch_lines(["*compile_budget cannot take 5 as a target*", "*compile_budget has no argument 'ms'*"])
    done.stdout.no_fnmatch_line("compilescope leaves *")


def test_registered_mark_that_one_test_uses_as_ours_is_ours(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.skip(reason="would load torch")
        @pytest.mark.compile_budget("Block.forward", compiles=2)
        def test_right(): pass

        @pytest.mark.compile_budget("Block.forward", compile=2)
        def test_wrong(): pass
    """)
    done = run(pytester)
    done.assert_outcomes(skipped=1, errors=1)
    done.stdout.fnmatch_lines(["*compile_budget has no argument 'compile'. Did you mean compiles*"])


def test_own_mark_of_one_name_leaves_our_other_marks_in_force(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.compile_budget(5)
        def test_own(): pass

        @pytest.mark.compile_budget(5)
        @pytest.mark.max_graph_breaks(-1)
        def test_ours(): pass
    """)
    done = run(pytester)
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(["*max_graph_breaks takes one argument*"])
