"""Whatever a user hands to `report`: a clear sentence, the right exit code, and nothing that was recorded is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner

from compilescope.cli import main
from compilescope.observing import Scope
from compilescope.render.registry import FORMATS
from compilescope.storage import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from compilescope.record import Recording

    Cli = Callable[..., Result]

COMPILE = "import torch\nf = torch.compile(lambda x: x + 1, backend='eager')\nf(torch.ones(3))\n"
WORKLOAD = "import torch\nfrom compilescope import Axis, workload\n"


@pytest.fixture(autouse=True)
def empty_caches() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Write a source, run `compilescope report` on it in this process, and save what was recorded to run.json."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *arguments: str, name: str = "source.py") -> Result:
        (tmp_path / name).write_text(text)
        return CliRunner().invoke(main, ["report", name, "--save", "run.json", *arguments], catch_exceptions=False)

    return run


def saved(status: str) -> Recording:
    """Load what was saved and check how its run ended."""
    recording = load("run.json")
    assert recording.meta.run.status == status
    return recording


def test_script_that_compiles(report: Cli) -> None:
    ended = report(COMPILE)
    assert ended.exit_code == 0
    assert len(saved("ok").compiled) == 1


def test_arguments_of_a_script(report: Cli) -> None:
    ended = report(COMPILE + "import sys\nassert sys.argv[1:] == ['--lr', '3']\n", "--", "--lr", "3")
    assert ended.exit_code == 0


def test_output_of_a_script_does_not_mix_with_the_report(report: Cli) -> None:
    ended = report("print('loss 0.3')\n" + COMPILE, "--format", "json")
    assert ended.stdout.startswith("{")
    assert "loss 0.3" in ended.stderr


def test_text_that_utf_8_cannot_hold_loses_no_recording(report: Cli, tmp_path: Path) -> None:
    keys = "f = torch.compile(lambda x, d: x + len(d), backend='eager')\nfor key in '\\udce8\\udce9':\n    "
    source = COMPILE + keys + "f(torch.ones(2), {key: 1})\nraise ValueError('\\udce9')\n"
    files = [f"--format={name}:out.{name}" for name in FORMATS]
    ended = report(source, *files)
    assert ended.exit_code == 2
    assert len(saved("raised").compiled) == 3
    assert all((tmp_path / f"out.{name}").read_bytes().decode() for name in FORMATS)


@pytest.mark.parametrize("ending", ["raise Odd", "sys.exit(Odd())"])
def test_text_that_cannot_be_made_loses_no_recording(report: Cli, ending: str) -> None:
    odd = "import sys\nclass Odd(Exception):\n    def __str__(self):\n        raise ValueError\n"
    ended = report(f"{COMPILE}{odd}{ending}\n")
    assert ended.exit_code == 2
    assert "compilescope itself failed" not in ended.stderr
    assert len(load("run.json").compiled) == 1
    assert "<Odd whose str() fails>" in str(load("run.json").meta.run.error)


def test_program_that_becomes_another_one_is_no_success(report: Cli) -> None:
    ended = report(COMPILE + "import os\nos.execlp('true', 'true')\n")
    assert ended.exit_code == 2
    assert "warning: The workload ended with os.exec('/" in ended.stderr
    assert len(saved("exited").compiled) == 1


@pytest.mark.parametrize(("ending", "code"), [("", 0), ("sys.exit(7)", 7), ("raise ValueError('x')", 1)])
def test_forked_child_that_runs_on_writes_no_report(tmp_path: Path, ending: str, code: int) -> None:
    (tmp_path / "source.py").write_text(
        f"{COMPILE}import os, sys\nsys.stdout.flush()\nchild = os.fork()\nif child:\n"
        f"    print('child', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\nelse:\n    {ending or 'pass'}\n"
    )
    command = [sys.executable, "-m", "compilescope", "report", "source.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0
    assert f"child {code}\n" in ended.stderr
    assert ended.stdout.count("eager fallbacks") == ended.stderr.count("eager fallbacks") == 1


def test_script_that_raises(report: Cli) -> None:
    ended = report(COMPILE + "raise ValueError('no data')\n")
    assert ended.exit_code == 2
    assert "ValueError: no data (source.py, line 4)" in ended.stderr
    assert "Traceback" in ended.stderr
    assert "compilescope itself failed" not in ended.stderr
    assert len(saved("raised").compiled) == 1


def test_script_that_exits_with_a_failure(report: Cli) -> None:
    ended = report(COMPILE + "raise SystemExit(3)\n")
    assert ended.exit_code == 2
    assert "sys.exit(3)" in ended.stderr
    assert len(saved("exited").compiled) == 1


def test_script_that_goes_elsewhere(report: Cli, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    assert report("import os\nos.chdir('inner')\n" + COMPILE).exit_code == 0
    (code,) = saved("ok").code_objects
    assert code.file == "source.py"


@pytest.mark.parametrize("end", ["", "raise ValueError('no data')\n"])
def test_script_that_deletes_its_working_folder(report: Cli, tmp_path: Path, end: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chdir(home)
    (home / "source.py").write_text(COMPILE + f"import shutil\nshutil.rmtree({str(home)!r})\n{end}")
    whole = str(tmp_path / "whole.json")
    ended = CliRunner().invoke(main, ["report", "source.py", "--save", "run.json", "--format", f"json:{whole}"])
    assert ended.exit_code == 2
    assert "error: run.json cannot be written" in ended.stderr
    assert "Traceback" not in ended.stderr or "ValueError: no data" in ended.stderr
    assert "compilescope itself failed" not in ended.stderr
    assert len(load(whole).compiled) == 1
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["whole.json"]


def test_script_that_makes_its_working_folder_anew(report: Cli, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    os.chdir(tmp_path / "home")
    text = COMPILE + "import os, shutil\nhome = os.getcwd()\nshutil.rmtree(home)\nos.mkdir(home)\n"
    (tmp_path / "source.py").write_text(text)
    assert CliRunner().invoke(main, ["report", "../source.py", "--save", "run.json"]).exit_code == 0
    assert len(load(tmp_path / "home" / "run.json").compiled) == 1


def test_script_that_closes_its_streams(tmp_path: Path) -> None:
    closing = "import os, sys\nsys.stdout.close()\nsys.stderr.close()\nos.close(1)\nos.close(2)\n"
    (tmp_path / "source.py").write_text(COMPILE + closing)
    command = [sys.executable, "-m", "compilescope", "report", "source.py", "--save", "run.json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "1 compilation of 1 code object" in ended.stdout
    assert "compilescope: 1 compilation of 1 code object" in ended.stderr
    assert len(load(tmp_path / "run.json").compiled) == 1


def test_script_that_exits_in_order(report: Cli) -> None:
    assert report(COMPILE + "raise SystemExit(0)\n").exit_code == 0
    saved("ok")


def test_script_that_never_compiles(report: Cli) -> None:
    ended = report("print('hello')\n")
    assert ended.exit_code == 2
    assert "NOTHING WAS COMPILED" in ended.stdout
    assert "NOTHING WAS COMPILED" in ended.stderr
    assert saved("ok").compiled == ()


def test_script_that_is_interrupted(report: Cli) -> None:
    assert report(COMPILE + "raise KeyboardInterrupt\n").exit_code == 130
    assert len(saved("interrupted").compiled) == 1


def test_file_that_does_not_exist(report: Cli) -> None:
    report(COMPILE, name="model.py")
    ended = CliRunner().invoke(main, ["report", "modle.py"])
    assert (ended.exit_code, ended.stderr) == (2, "Error: modle.py does not exist. Did you mean model.py?\n")


def test_syntax_error(report: Cli) -> None:
    ended = report("def f(:\n")
    assert (ended.exit_code, ended.stderr) == (2, "Error: source.py is not valid Python: invalid syntax (line 1).\n")


def test_unknown_axis(report: Cli) -> None:
    source = WORKLOAD + "@workload(axes=[Axis('height', [1])])\ndef w():\n    return print\n"
    ended = report(source, "--sweep", "hieght=1,2")
    assert ended.exit_code == 2
    assert ended.stderr == ("Error: Workload 'w' has no axis 'hieght': its axes are height. Did you mean height?\n")


def test_unknown_format(report: Cli) -> None:
    ended = report(COMPILE, "--format", "yaml")
    assert ended.exit_code == 2
    known = "text, json, json-lines, markdown, github, gitlab, junit and sarif"
    assert ended.stderr == f"Error: Unknown format 'yaml': the formats are {known}.\n"


def test_unknown_order(report: Cli) -> None:
    source = WORKLOAD + "@workload\ndef w():\n    return print\n"
    ended = report(source, "--order", "girdd")
    assert ended.exit_code == 2
    assert "the orders are grid, one_at_a_time and random" in ended.stderr


def test_seed_that_would_do_nothing(report: Cli) -> None:
    ended = report(WORKLOAD + "@workload\ndef w():\n    return print\n", "--seed", "3")
    assert ended.exit_code == 2
    assert "--seed is for --order random; the order is grid." in ended.stderr


@pytest.mark.parametrize(
    "arguments", [["--sweep", "n=1"], ["--device", "meta"], ["--set", "x=1"], ["--parity"], ["--order", "grid"]]
)
def test_option_that_a_script_cannot_follow(report: Cli, arguments: list[str]) -> None:
    ended = report(COMPILE, *arguments)
    assert ended.exit_code == 2
    assert ended.stderr == (
        f"Error: {arguments[0]} cannot be used with source.py: a script has no axes and no factory.\n"
    )


def test_arguments_for_a_workload(report: Cli) -> None:
    ended = report(WORKLOAD + "@workload\ndef w():\n    return print\n", "--", "x")
    assert ended.exit_code == 2
    assert "take no arguments" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--sweep", "n"], "--sweep 'n' is not of the form NAME=VALUE."),
        (["--sweep", "=1"], "--sweep '=1' is not of the form NAME=VALUE."),
        (["--sweep", "n=1,,2"], "--sweep 'n=1,,2' has an empty value."),
        (["--sweep", "n=1", "--sweep", "n=2"], "--sweep gives 'n' twice."),
        (["--set", "size="], "--set 'size=' is not of the form NAME=VALUE."),
        (["--set", "device=cpu", "--device", "meta"], "--set gives 'device' twice."),
    ],
)
def test_values_that_cannot_be_read(report: Cli, arguments: list[str], sentence: str) -> None:
    ended = report(WORKLOAD + "@workload\ndef w():\n    return print\n", *arguments)
    assert (ended.exit_code, ended.stderr) == (2, f"Error: {sentence}\n")


def test_parameter_of_the_factory(report: Cli) -> None:
    source = WORKLOAD + "@workload\ndef w(size='tiny'):\n    print('built', size)\n    return print\n"
    assert "built full" in report(source, "--set", "size=full").stderr
    ended = report(source, "--set", "szie=full")
    assert ended.exit_code == 2
    assert "its factory has no parameter szie; it has size. Did you mean size?" in ended.stderr


def test_factory_that_returns_the_wrong_thing(report: Cli) -> None:
    ended = report(WORKLOAD + "@workload\ndef w():\n    return torch.ones(3)\n")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("Error: The factory of workload 'w' returned Tensor, which cannot be called")


def test_workload_without_a_device(report: Cli) -> None:
    ended = report(WORKLOAD + "@workload\ndef w():\n    return print\n", "--device", "meta")
    assert ended.exit_code == 2
    assert "its factory has no parameter device" in ended.stderr


def test_point_that_raises_is_no_crash(report: Cli) -> None:
    source = (
        COMPILE
        + WORKLOAD
        + (
            "@workload(axes=[Axis('n', [0, 3])])\ndef w():\n    def call(n):\n"
            "        if n == 0:\n            raise ValueError('no tokens')\n        f(torch.ones(n))\n    return call\n"
        )
    )
    ended = report(source)
    assert ended.exit_code == 0
    assert "1 of 2 sweep points raised" in ended.stderr
    assert [point.status for point in saved("ok").sweeps[0].points] == ["error", "ok"]


def test_targets_that_were_never_reached(report: Cli) -> None:
    ended = report(COMPILE, "--target", "Blcok.*")
    assert ended.exit_code == 2
    assert "Blcok.*" in ended.stderr


def test_setting_that_is_misspelt(report: Cli, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.compilescope]\nordr = 'grid'\n")
    ended = report(COMPILE)
    assert ended.exit_code == 2
    assert "Unknown key 'ordr'" in ended.stderr


SLOW_SWEEP = (
    WORKLOAD + "import sys, time\n@workload(axes=[Axis('n', [3, 4, 5])])\ndef w():\n"
    "    f = torch.compile(lambda x: x + 1, backend='eager')\n"
    "    def call(n):\n        f(torch.ones(n))\n        if n == 4:\n"
    "            print('ready', file=sys.stderr, flush=True)\n            time.sleep(60)\n    return call\n"
)
SLOW_SCRIPT = COMPILE + "import sys, time\nprint('ready', file=sys.stderr, flush=True)\ntime.sleep(60)\n"


def signalled(folder: Path, source: str, number: signal.Signals, *command: str) -> tuple[int, str]:
    """Send a real signal to a real process once it is ready; return its exit code and what it printed."""
    (folder / "slow.py").write_text(source)
    # What runs in the background inherits an ignored SIGINT, and Python then leaves it ignored.
    listening = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('compilescope', run_name='__main__')"
    )
    whole = [sys.executable, "-c", listening, *command, "slow.py", "--save", "run.json"]
    process = subprocess.Popen(whole, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert any("ready" in line for line in process.stderr)
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


@pytest.mark.parametrize(
    ("number", "command", "code"),
    [(signal.SIGINT, "report", 130), (signal.SIGTERM, "report", 143), (signal.SIGTERM, "check", 143)],
)
def test_signal_in_a_sweep_saves_what_was_recorded(
    tmp_path: Path, number: signal.Signals, command: str, code: int
) -> None:
    ended, out = signalled(tmp_path, SLOW_SWEEP, number, command)
    assert ended == code
    recording = load(tmp_path / "run.json")
    assert not recording.sweeps[0].completed
    assert [point.values for point in recording.sweeps[0].points] == [{"n": 3}]
    assert len(recording.compiled) == 2
    assert "interrupted" in out


def test_sigterm_in_a_script_saves_what_was_recorded(tmp_path: Path) -> None:
    ended, out = signalled(tmp_path, SLOW_SCRIPT, signal.SIGTERM, "report")
    assert ended == 143
    recording = load(tmp_path / "run.json")
    assert len(recording.compiled) == 1
    assert (recording.meta.run.status, recording.meta.run.error) == ("interrupted", "terminated by SIGTERM")
    assert "interrupted" in out


@pytest.mark.parametrize("command", ["report", "check"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("source", [COMPILE, SLOW_SWEEP.replace("time.sleep(60)", "pass")], ids=["script", "sweep"])
def test_signal_after_the_program_waits_for_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, command: str, number: signal.Signals, code: int
) -> None:
    explain = Scope.recording.fget

    def explain_slowly(scope: Scope) -> Recording:
        # Once the program has ended, which is once signals wait: a sweep asks for its recording as it goes.
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            os.kill(os.getpid(), number)
        return explain(scope)

    monkeypatch.setattr(Scope, "recording", property(explain_slowly))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source.py").write_text(source)
    ended = CliRunner().invoke(main, [command, "source.py", "--save", "run.json", "-o", "out.txt"])
    assert ended.exit_code == code
    assert saved("ok").compiled
    assert "eager fallbacks" in (tmp_path / "out.txt").read_text()
