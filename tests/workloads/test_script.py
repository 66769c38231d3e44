"""A script runs as `python script.py` runs it, and however it ends, its end is told."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from compilescope.workloads.script import run_script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Write:
    """Write a script and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(text)
        return path

    return write


def test_script_sees_what_python_would_give_it(script: Write, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("here = True")
    path = script(
        "import json, sys, beside\n"
        "open(sys.argv[1], 'w').write(json.dumps([__name__, __file__, sys.argv, sys.path[0],"
        " sys.modules['__main__'].__file__]))\n"
    )
    out = tmp_path / "seen.json"
    run = run_script(path, [str(out), "--lr=3"])
    assert run.status == "ok"
    seen = json.loads(out.read_text())
    assert seen == ["__main__", str(path), [str(path), str(out), "--lr=3"], str(tmp_path), str(path)]
    sys.modules.pop("beside")


def test_script_does_not_find_what_lies_beside_it_where_paths_are_safe(script: Write, tmp_path: Path) -> None:
    (tmp_path / "beside.py").touch()
    run = "import sys; from pathlib import Path; from compilescope.workloads.script import run_script; "
    run += "print(run_script(Path(sys.argv[1])).error)"
    command = [sys.executable, "-P", "-c", run, str(script("import beside\n"))]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout.startswith("ModuleNotFoundError: No module named 'beside'")


def test_interpreter_is_as_before_when_the_script_has_ended(script: Write) -> None:
    before = list(sys.argv), list(sys.path), sys.modules["__main__"]
    run_script(script("import sys; sys.argv.append('x'); sys.path.append('y'); 1/0"))
    assert (list(sys.argv), list(sys.path), sys.modules["__main__"]) == before


def test_script_that_raises_gives_one_line_and_the_users_frames(script: Write) -> None:
    run = run_script(script("def f():\n    raise ValueError('bad\\nmore')\nf()\n"))
    assert run.status == "raised"
    assert run.error == "ValueError: bad (program.py, line 2)"
    assert run.traceback.count('File "') == 2
    assert "runpy" not in run.traceback


def test_cause_of_an_exception_is_told(script: Write) -> None:
    run = run_script(script("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e\n"))
    assert "ZeroDivisionError" in run.traceback
    assert "direct cause" in run.traceback


@pytest.mark.parametrize(
    ("statement", "status", "code"),
    [
        ("sys.exit()", "ok", 0),
        ("sys.exit(0)", "ok", 0),
        ("sys.exit(3)", "exited", 3),
        ("sys.exit('no data')", "exited", 1),
    ],
)
def test_script_that_exits(script: Write, statement: str, status: str, code: int) -> None:
    run = run_script(script(f"import sys\n{statement}\n"))
    assert (run.status, run.exit_code) == (status, code)


def test_text_of_an_exit_is_kept(script: Write) -> None:
    assert run_script(script("raise SystemExit('no data')")).error == "sys.exit: no data"


def test_interrupt_does_not_escape(script: Write) -> None:
    assert run_script(script("raise KeyboardInterrupt")).status == "interrupted"
