"""A program that calls os._exit ends, and what was recorded of it is kept."""

from __future__ import annotations

import os

import pytest

from compilescope.workload.exits import hard_exits_seen

HARD_EXIT = os._exit


def test_hard_exit_ends_the_program_and_not_the_process() -> None:
    with pytest.raises(SystemExit) as ended, hard_exits_seen():
        os._exit(3)
    assert ended.value.code == 3


def test_function_is_put_back() -> None:
    with pytest.raises(ZeroDivisionError), hard_exits_seen():
        _ = 1 / 0
    assert os._exit is HARD_EXIT


def test_forked_child_ends_as_it_likes() -> None:
    with hard_exits_seen():
        child = os.fork()
        if child == 0:
            os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
