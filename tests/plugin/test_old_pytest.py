"""Under a pytest that is too old for the plugin, only what asks for it is refused, in a sentence."""

from __future__ import annotations

import pytest

from compilescope import pytest_plugin

# Nothing of ours runs in the inner runs, so no torch is loaded.
pytest_plugins = ["pytester"]

# Plugins that make the installed pytest answer as an old one does. They are loaded before what is found by itself.
OLD = {
    "pluggy 1.1": """
        import pluggy

        KNOWN = {"hookwrapper", "optionalhook", "tryfirst", "trylast", "specname"}
        marked = pluggy.HookimplMarker.__call__

        def call(marker, function=None, **options):
            if not options.keys() <= KNOWN:
                raise TypeError(f"unexpected keyword arguments: {options}")
            return marked(marker, function, **options)

        pluggy.HookimplMarker.__call__ = call
    """,
    "pytest 6.2": """
        import pytest

        NEW = "CallInfo CollectReport Config Mark MarkDecorator Metafunc OptionGroup Parser Stash StashKey TestReport"
        for name in (*NEW.split(), "PytestPluginManager", "TerminalReporter", "version_tuple"):
            vars(pytest).pop(name, None)
    """,
}
TESTS = """
    import pytest

    def test_plain(): pass

    @pytest.mark.skip(reason="not here")
    @pytest.mark.compile_budget(compiles=1)
    def test_skipped(): pass

    @pytest.mark.compile_budget(compiles=1)
    def test_marked(): pass

    def test_with_fixture(compilescope): pass

    def test_asks_while_it_runs(request): request.getfixturevalue("compilescope")
"""
LACK = f"compilescope: its pytest plugin needs {pytest_plugin.NEEDS}, and here are pytest "


@pytest.fixture
def old(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A place in which this process counts as one with an old pytest."""
    monkeypatch.setattr(pytest_plugin, "LACK", f"{LACK}6.2.5")
    return pytester


@pytest.mark.parametrize("version", OLD)
def test_plugin_loads_under_an_old_pytest_and_refuses_what_asks_for_it(pytester: pytest.Pytester, version: str) -> None:
    pytester.makepyfile(old_pytest=OLD[version])
    pytester.makepyfile(TESTS)
    without = ("-p", "no:randomly", "-p", "no:xdist", "-p", "no:hypothesispytest", "-W", "error")
    done = pytester.runpytest_subprocess("-p", "old_pytest", *without)
    done.assert_outcomes(passed=1, skipped=1, failed=1, errors=2)
    done.stdout.fnmatch_lines([f"{LACK}*", f"{LACK}*", f"{LACK}*"])


def test_suite_that_asks_for_nothing_runs_under_an_old_pytest(old: pytest.Pytester) -> None:
    old.makepyfile("def test_plain(request): assert not request.config.pluginmanager.hasplugin('compilescope-refusal')")
    done = old.runpytest_inprocess("-p", "no:randomly")
    done.assert_outcomes(passed=1)
    assert LACK not in done.stdout.str()


def test_mark_taken_for_a_decorator_is_an_error_under_an_old_pytest(old: pytest.Pytester) -> None:
    old.makepyfile("""
        import pytest

        def target(x): pass

        @pytest.mark.compile_budget(target)
        def test_plain(): pass
    """)
    old.runpytest_inprocess("-p", "no:randomly").assert_outcomes(errors=1)


def test_own_names_of_a_suite_are_left_alone_under_an_old_pytest(old: pytest.Pytester) -> None:
    old.makeini("[pytest]\nmarkers = compile_budget(ms): how long the compiler may take")
    old.makepyfile("""
        import pytest

        @pytest.fixture
        def compilescope(): pass

        @pytest.mark.compile_budget(5)
        def test_own(compilescope): pass
    """)
    old.runpytest_inprocess("-p", "no:randomly").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "option",
    [
        ("--compilescope-report=json:a.json",),
        ("--compilescope-baseline=b.json",),
        ("--compilescope-update-baseline",),
        ("-o", "compilescope_isolate=true"),
    ],
)
def test_option_of_ours_is_refused_by_an_old_pytest(old: pytest.Pytester, option: tuple[str, ...]) -> None:
    old.makepyfile("def test_plain(): pass")
    done = old.runpytest_inprocess("-p", "no:randomly", *option)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: {LACK}6.2.5"])
