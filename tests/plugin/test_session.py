"""What the plugin is to a whole session: options, workers that crash, tests that run again, torch that is absent."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from compilescope.plugin import session
from compilescope.plugin.session_report import Reporting

from .outcomes import run_pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .outcomes import Session

# Used in this process only where an inner run does not load torch: what it loads is thrown away behind it.
pytest_plugins = ["pytester"]

# A folder in which torch cannot be imported.
NO_TORCH = "import sys\nsys.modules['torch'] = None\n"


def run_with(folder: Path, test: str, *arguments: str, conftest: str = "") -> Session:
    """Run one file of tests."""
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")
    return run_pytest(folder, *arguments)


def loaded_by(code: str) -> set[str]:
    """Return the modules that are loaded after ``code`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_loading_the_plugin_loads_no_torch_and_nothing_that_works() -> None:
    loaded = loaded_by("import compilescope.pytest_plugin")
    assert "compilescope.pytest_plugin" in loaded
    assert not {"torch", "numpy", "rich", "click", "networkx", "msgspec"} & loaded
    rooms = {name for name in loaded if name.startswith(("compilescope.plugin", "compilescope.capture"))}
    assert rooms == {"compilescope.plugin", "compilescope.plugin.names"}


def test_walking_the_modules_that_the_plugin_loads_imports_nothing() -> None:
    walk = """
import sys, pytest
before = set(sys.modules)
import compilescope.pytest_plugin
ours = [sys.modules[name] for name in sys.modules.keys() - before]
known = set(sys.modules)
assert ours
for module in ours:
    for name in dir(module):
        getattr(module, name)
assert sys.modules.keys() == known, sys.modules.keys() - known
"""
    assert "compilescope.pytest_plugin" in loaded_by(walk)


def test_prompt_completes_every_public_name_and_other_programs_list_what_is_loaded() -> None:
    listed = "import compilescope, sys; compilescope.Recording; print(dir(compilescope)); sys.ps1 = ''; "
    told = f"{listed}print(dir(compilescope) == sorted(compilescope.__all__))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['Recording', '__version__']", "True"]


def test_claims_are_read_and_judged_without_torch() -> None:
    assert "torch" not in loaded_by("import compilescope.testing, compilescope.plugin.session_report")


def test_suite_without_marks_runs_no_hook_of_ours_during_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_plain(request):
            manager = request.config.pluginmanager
            ours = [name for name, plugin in manager.list_name_plugin() if name and "compilescope" in name]
            assert ours == ["compilescope"]
            assert not [name for name in dir(manager.get_plugin("compilescope")) if name.startswith("pytest_runtest")]
    """)
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_without_torch_only_marked_tests_fail(tmp_path: Path) -> None:
    test = """
        import pytest

        def test_plain():
            pass

        @pytest.mark.no_shape_recompile("Block.forward")
        def test_marked():
            pass
    """
    done = run_with(tmp_path, textwrap.dedent(test), "--strict-markers", conftest=NO_TORCH)
    assert done.tests["test_plain"].status == "passed"
    assert done.tests["test_marked"].status == "error"
    assert "compilescope: import of torch halted" in done.tests["test_marked"].text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--compilescope-report=jsn:a",), r"Unknown format 'jsn': .* Did you mean json"),
        (("--compilescope-report=json:",), "--compilescope-report 'json:' names no file"),
        (("--compilescope-report=json:none/a.json",), "The folder none does not exist"),
        (("--compilescope-report=json:a", "--compilescope-report=text:a"), "Two outputs would go to a"),
        (("--compilescope-report=json:a", "--compilescope-report=text:./a"), "Two outputs would go to a"),
        (
            ("--compilescope-baseline=b", "--compilescope-update-baseline", "--compilescope-report=json:./b"),
            "b is the baseline: give the report another file",
        ),
        (("--compilescope-baseline=none.json",), "The baseline none.json does not exist"),
        (("--compilescope-update-baseline",), "needs --compilescope-baseline=FILE"),
    ],
)
def test_wrong_option_stops_the_session_before_a_test(
    pytester: pytest.Pytester, options: tuple[str, ...], says: str
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_inprocess("-p", "no:randomly", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.re_match_lines([f"ERROR: .*{says}"])


def test_report_without_a_recorded_test_is_not_written(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_inprocess("--compilescope-report=json:a.json")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["No test was recorded, so no report was written."])
    assert not (pytester.path / "a.json").exists()


def test_place_that_is_gone_fails_the_session(pytester: pytest.Pytester) -> None:
    pytester.mkdir("out")
    pytester.makepyfile("""
        import shutil
        from compilescope.plugin.session_report import Reporting
        from compilescope.record import Meta, Recording

        def test_plain(request):
            meta = Meta(compilescope="0", torch="2.13.0", python="3", platform="L", device="cpu")
            request.config.pluginmanager.get_plugin(Reporting.NAME).add("t", Recording(meta=meta), ())
            shutil.rmtree("out")
    """)
    result = pytester.runpytest_inprocess("--compilescope-report=json:out/a.json")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["out/a.json cannot be written*"])


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("class Target: pass", id="raises"),
        pytest.param("def Target(x): return x", id="gives_the_test_back_unmarked"),
        pytest.param("def Target(x): return None", id="swallows_the_test"),
    ],
)
def test_mark_taken_for_a_decorator_of_its_target_is_an_error(pytester: pytest.Pytester, target: str) -> None:
    pytester.makepyfile(f"""
        import pytest

        {target}

        @pytest.mark.no_shape_recompile(Target)
        def test_plain(): pass
    """)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*decorator of f. Write @pytest.mark.no_shape_recompile(targets=f), or*"])


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("no_shape_recompile", "no_shape_recompile needs a target, as in no_shape_recompile('Block.forward'): "),
        ("no_shape_recompile()", "no_shape_recompile needs a target, as in no_shape_recompile('Block.forward'): "),
        ("compile_budget()", "compile_budget limits nothing: "),
        ("max_graph_breaks()", "max_graph_breaks takes one argument, "),
    ],
)
def test_mark_without_arguments_says_what_it_needs(pytester: pytest.Pytester, mark: str, says: str) -> None:
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.{mark}
        def test_plain(): pass

        @pytest.mark.{mark}
        class TestOfClass:
            def test_method(self): pass
    """)
    result = pytester.runpytest_inprocess("-p", "no:randomly")
    result.assert_outcomes(errors=2)
    assert result.stdout.str().count(f"compilescope: {says}") >= 2


def test_marks_of_others_without_arguments_are_no_concern_of_ours(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.skip
        class Helper: pass

        @pytest.mark.filterwarnings("ignore")
        def test_plain(): pass
    """)
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_every_test_is_isolated_where_the_settings_say_so(tmp_path: Path) -> None:
    test = """
        def test_plain(request):
            assert "_compilescope_isolated" in request.node.fixturenames

        class TestOfClass:
            def test_method(self, request, tmp_path):
                names = request.node.fixturenames
                assert names.index("_compilescope_isolated") < names.index("tmp_path")
    """
    done = run_with(tmp_path, textwrap.dedent(test), "-o", "compilescope_isolate=true")
    assert done.code == 0, done.output


def test_first_test_that_imports_torch_leaves_nothing_behind(tmp_path: Path) -> None:
    test = """
        import sys

        def test_sets():
            assert "torch" not in sys.modules
            import torch
            torch._dynamo.config.recompile_limit = 3
            torch._dynamo.config.cache_size_limit = 5
            torch.fx.experimental._config.use_duck_shape = False

        def test_finds():
            import torch
            assert torch._dynamo.config.recompile_limit == 8
            assert torch.fx.experimental._config.use_duck_shape
    """
    done = run_with(tmp_path, textwrap.dedent(test), "-o", "compilescope_isolate=true")
    assert done.code == 0, done.output


def test_crashed_worker_is_named(tmp_path: Path) -> None:
    test = """
        import os, time

        def test_crashes():
            os._exit(3)
    """
    done = run_with(tmp_path, textwrap.dedent(test), "-n", "1", "--compilescope-report=json:a.json")
    assert done.code == 1
    assert "Worker gw0 crashed" in done.output
    assert "what its tests compiled is missing" in done.output


def test_worker_that_hands_over_nothing_fails_a_session_that_went_well() -> None:
    reporting = Reporting((), None)
    # Not this session's own configuration: under xdist that is a worker's.
    controller: Any = SimpleNamespace(config=SimpleNamespace(), exitstatus=pytest.ExitCode.OK)
    reporting.pytest_sessionfinish(controller)
    assert controller.exitstatus == pytest.ExitCode.OK
    reporting.pytest_testnodeready(SimpleNamespace(gateway=SimpleNamespace(id="gw0")))
    reporting.pytest_sessionfinish(controller)
    assert controller.exitstatus == pytest.ExitCode.TESTS_FAILED


def test_report_without_a_file_is_shown_at_the_end(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from compilescope.plugin.session_report import Reporting
        from compilescope.record import Meta, Recording

        def test_plain(request):
            meta = Meta(compilescope="0", torch="2.13.0", python="3", platform="L", device="cpu")
            request.config.pluginmanager.get_plugin(Reporting.NAME).add("t", Recording(meta=meta), ())
    """)
    result = pytester.runpytest_inprocess("--compilescope-report=text")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["=* compilescope =*", "*NOTHING WAS COMPILED*"])


def test_baseline_that_cannot_be_written_at_the_end_fails_the_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from pathlib import Path
        from compilescope.plugin.session_report import Reporting

        def test_plain(request):
            request.config.pluginmanager.get_plugin(Reporting.NAME).census.judged.add("t")
            Path("b.json").write_text("[]")
    """)
    result = pytester.runpytest_inprocess("--compilescope-baseline=b.json", "--compilescope-update-baseline")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["=* compilescope =*", "b.json is not a compilescope baseline*"])


@pytest.mark.usefixtures("fresh_dynamo")
def test_fixture_asked_for_when_nothing_of_ours_runs_is_judged_behind_the_test(request: pytest.FixtureRequest) -> None:
    import torch

    fixture = session.watched(request.node)
    watch = next(fixture)
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    with watch.warmup():
        compiled(torch.ones(3))
    compiled(torch.ones(4))
    request.node.stash[session._CALLED] = True  # as pytest's report on a call that passed says
    with pytest.raises(pytest.fail.Exception, match=r"was compiled after freeze\(\)"):
        next(fixture)
