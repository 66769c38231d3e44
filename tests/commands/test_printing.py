"""What cannot be printed gives a sentence and an exit code, and no traceback; no torch here."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from compilescope.record import Compilation, Meta, Recording, Run, Sweep
from compilescope.storage import save

if TYPE_CHECKING:
    from typing import IO

FULL = Path("/dev/full")
META = Meta(compilescope="0.1", torch="2.13.0", python="3.11", platform="Linux", device="cpu", counts_runs=True)
PRINTING = (
    ["report", "run.json"],
    ["check", "run.json"],
    ["explain", "size"],
    ["explain", "--rules"],
    ["--version"],
    ["--help"],
    ["report", "--help"],
)


@pytest.fixture(autouse=True)
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save a recording as run.json and go there."""
    monkeypatch.chdir(tmp_path)
    compiled = Compilation(id="0/0", code="m.py:f\N{SNOWMAN}", outcome="compiled", seconds=0.1)
    save(Recording(meta=META, compilations=(compiled,)), "run.json")


def run(*arguments: str, stdout: IO[bytes] | int = subprocess.PIPE, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "compilescope", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONUNBUFFERED": "", **env},
    )


def in_shell(command: str) -> subprocess.CompletedProcess[str]:
    whole = f"{sys.executable} -m compilescope {command}"
    return subprocess.run(["sh", "-c", whole], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(not FULL.is_char_device(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_stdout_that_is_full_gives_a_sentence(arguments: list[str], unbuffered: str) -> None:
    with FULL.open("wb") as full:
        ended = run(*arguments, stdout=full, PYTHONUNBUFFERED=unbuffered)
    assert ended.returncode == 2
    assert "rror: stdout cannot be written: No space left on device." in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


@pytest.mark.skipif(not FULL.is_char_device(), reason="this system has no device that is always full")
def test_other_reports_are_written_though_stdout_is_full() -> None:
    with FULL.open("wb") as full:
        run("report", "run.json", "--format", "text", "--format", "json:a.json", "--save", "b.json", stdout=full)
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes() == Path("run.json").read_bytes()


def test_other_reports_are_written_though_nobody_reads_stdout() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = run("report", "run.json", "--format", "text", "--format", "json:a.json", stdout=writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (2, "")
    assert Path("a.json").read_bytes() == Path("run.json").read_bytes()


@pytest.mark.parametrize("arguments", ["report run.json", "check run.json", "report run.json --format json:-"])
def test_report_for_stdout_that_is_closed_is_refused_before_the_run(arguments: str) -> None:
    ended = in_shell(f"{arguments} --save a.json >&-")
    assert (ended.returncode, ended.stderr) == (2, "Error: stdout is closed: give the report a file, as -o FILE.\n")
    assert not Path("a.json").exists()


def test_stdout_that_is_closed_is_told_of_by_explain() -> None:
    ended = in_shell("explain size >&-")
    assert (ended.returncode, ended.stderr) == (2, "Error: stdout is closed.\n")


def test_report_for_a_file_needs_no_stdout() -> None:
    ended = in_shell("report run.json --format json -o a.json >&-")
    assert ended.returncode == 0, ended.stderr
    assert Path("a.json").read_bytes() == Path("run.json").read_bytes()


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_report_is_printed_though_stderr_takes_nothing(stderr: str) -> None:
    ended = in_shell(f"report run.json {stderr}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "1 compilation of 1 code object" in ended.stdout


@pytest.mark.parametrize("usage", ["nonsense", "--nonsense", "report", "check run.json --max-recompiles x"])
@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_wrong_usage_is_no_finding_though_stderr_takes_nothing(usage: str, stderr: str) -> None:
    ended = in_shell(f"{usage} {stderr}")
    assert (ended.returncode, ended.stdout) == (2, "")


def test_stdout_of_an_encoding_that_lacks_a_letter_gives_a_sentence() -> None:
    ended = run("report", "run.json", "--format", "json", PYTHONIOENCODING="latin-1")
    assert ended.returncode == 2
    assert "error: stdout cannot be written: its encoding is latin-1. Set PYTHONIOENCODING=utf-8." in ended.stderr


def on_terminal(*arguments: str, columns: int) -> str:
    """Run on a terminal of a width, and return what is seen there."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    command = [sys.executable, "-m", "compilescope", *arguments]
    ended = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # what Linux says of a terminal that nobody writes to any more
        while part := os.read(ours, 1 << 16):
            seen += part
    os.close(ours)
    assert ended.wait(timeout=120) in (0, 2)
    return re.sub(r"\x1b\[[\d;]*m", "", seen.decode()).replace("\r\n", "\n")


@pytest.fixture
def warned() -> Recording:
    """A run with much to say of one thing, an alarm and a warning."""
    sweep = Sweep(workload="w", order="grid", axes={}, points=(), warnings=("word " * 80,))
    run = Run(status="raised", error="ValueError: bad", traceback="Traceback: bad")
    compiled = Compilation(id="0/0", code="m.py:f", outcome="compiled", seconds=0.1)
    meta = msgspec.structs.replace(META, run=run, argv=("compilescope", "argument " * 40))
    recording = Recording(meta=meta, compilations=(compiled,), sweeps=(sweep,))
    save(recording, "warned.json")
    return recording


@pytest.mark.parametrize(("columns", "width"), [(40, 60), (137, 137), (500, 200)])
@pytest.mark.usefixtures("warned")
def test_report_takes_the_width_of_the_terminal(columns: int, width: int) -> None:
    lines = on_terminal("report", "warned.json", columns=columns).splitlines()
    assert max(map(len, lines)) == width


@pytest.mark.usefixtures("warned")
def test_what_is_wrong_is_said_once_where_stdout_and_stderr_are_one() -> None:
    seen = on_terminal("report", "warned.json", "-v", columns=100)
    assert seen.count("The workload raised ValueError: bad") == 1
    assert seen.count("Traceback: bad") == 1
    assert in_shell("report warned.json -v 2>&1").stdout.count("The workload raised ValueError: bad") == 1
    apart = in_shell("report warned.json")
    assert "The workload raised ValueError: bad" in apart.stdout
    assert "The workload raised ValueError: bad" in apart.stderr
