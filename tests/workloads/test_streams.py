"""However a program treats stdout and stderr, what is printed behind it arrives where it should."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

FRAME = """
import contextlib, io, os, sys
from compilescope.workloads.streams import streams_kept

with streams_kept(), contextlib.redirect_stdout(sys.stderr):
{program}
sys.stdout.write("report\\n")
sys.stderr.write("remark\\n")
"""


@pytest.mark.parametrize(
    "program",
    [
        "sys.stdout.close()",
        "sys.stderr.close()",
        "sys.__stdout__.close()",
        "sys.stdout = sys.stderr = open('log', 'w')",
        "sys.stdout = io.TextIOWrapper(sys.stdout.detach())",
        "sys.stdout = sys.stderr = None",
        "del sys.stdout, sys.stderr",
        "os.close(1); os.close(2)",
        "os.close(1); os.close(2); kept = open('log', 'w'), open('other', 'w')",
        "os.dup2(os.open('log', os.O_WRONLY | os.O_CREAT), 1); os.dup2(1, 2)",
        "sys.stderr.close(); raise SystemExit(0)",
    ],
)
def test_report_and_remark_arrive_behind_a_program(tmp_path: Path, program: str) -> None:
    guarded = f"    with contextlib.suppress(SystemExit):\n        {program}"
    command = [sys.executable, "-c", FRAME.format(program=guarded)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ended.stdout == "report\n"
    assert ended.stderr.endswith("remark\n")
    assert ended.returncode == 0


def test_program_that_closes_every_descriptor_leaves_streams_that_take_nothing(tmp_path: Path) -> None:
    frame = FRAME.replace("with streams_kept()", "with folder_kept(), streams_kept()").replace(
        "sys.stdout.write", "open('told', 'w').write(repr((sys.stdout, sys.stderr)) + os.getcwd())\nsys.exit()\n#"
    )
    frame = f"from compilescope.workloads.folder import folder_kept{frame}"
    program = "    sys.__stdout__.close(); sys.stderr.close(); os.chdir('/'); os.closerange(0, 100)"
    ended = subprocess.run(
        [sys.executable, "-c", frame.format(program=program)], cwd=tmp_path, check=False, timeout=120
    )
    assert ended.returncode == 0
    assert (tmp_path / "told").read_text() == f"(None, None){tmp_path}"


def test_what_a_program_redirects_goes_where_it_wanted(tmp_path: Path) -> None:
    program = "    sys.__stdout__.write('loss'); os.dup2(os.open('log', os.O_WRONLY | os.O_CREAT), 1)"
    command = [sys.executable, "-c", FRAME.format(program=program)]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert ended.stdout == "report\n"
    assert (tmp_path / "log").read_text() == "loss"
