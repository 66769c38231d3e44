"""A program that calls os._exit or os.exec* ends, and so does a forked child: what was recorded is kept."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from compilescope.record import Run
from compilescope.workloads.ending import ended
from compilescope.workloads.exits import hard_exits_seen, leave_as_child

if TYPE_CHECKING:
    from collections.abc import Callable

HARD_EXIT = os._exit
EXEC = os.execv, os.execve


def test_hard_exit_ends_the_program_and_not_the_process() -> None:
    with pytest.raises(SystemExit) as ended, hard_exits_seen():
        os._exit(3)
    assert ended.value.code == 3


def test_functions_are_put_back() -> None:
    with pytest.raises(ZeroDivisionError), hard_exits_seen():
        _ = 1 / 0
    assert (os._exit, os.execv, os.execve) == (HARD_EXIT, *EXEC)


@pytest.mark.parametrize(
    "become",
    [
        lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
        lambda: os.execle(os.fsencode(sys.executable), "python", "-c", "", {}),
        lambda: os.execlp("true", "true"),
    ],
)
def test_program_that_becomes_another_one_ends(become: Callable[[], None]) -> None:
    with hard_exits_seen():
        run = ended(become).run
    assert (run.status, run.exit_code) == ("exited", None)
    assert re.fullmatch(r"os\.exec\('/.*'\): the program that it becomes is not recorded", run.error or "")


def test_program_is_told_that_it_cannot_become_what_is_not_there() -> None:
    with pytest.raises(FileNotFoundError), hard_exits_seen():
        os.execvp("no-such-program", ["no-such-program"])
    with pytest.raises(PermissionError), hard_exits_seen():
        os.execv(__file__, [__file__])


def test_forked_child_becomes_what_it_likes() -> None:
    with hard_exits_seen():
        child = os.fork()
        if child == 0:
            os.execlp("sh", "sh", "-c", "exit 7")
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        (Run(status="ok"), 0, ""),
        (Run(status="raised", error="ValueError", traceback="the traceback"), 1, "the traceback\n"),
        (Run(status="exited", exit_code=7, error="sys.exit(7)"), 7, ""),
        (Run(status="exited", exit_code=1, error="sys.exit: no data"), 1, "no data\n"),
    ],
)
def test_forked_child_that_has_run_to_its_end_ends_as_python_would(
    run: Run, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        leave_as_child(os.getpid() + 1, run)
    assert left.value.code == code
    assert capsys.readouterr().err == said


def test_process_that_began_goes_on_to_its_report() -> None:
    leave_as_child(os.getpid(), Run(status="ok"))


def test_forked_child_ends_as_it_likes() -> None:
    with hard_exits_seen():
        child = os.fork()
        if child == 0:
            os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
