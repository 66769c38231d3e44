"""A program has ended when Python would have ended it: behind its threads and its exit handlers."""

from __future__ import annotations

import atexit
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from compilescope.workloads.ending import ended, ending_seen
from compilescope.workloads.exits import hard_exits_seen
from compilescope.workloads.script import run_script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Write:
    """Write a script and return its path; it writes what it did to ``said`` beside it."""
    head = f"def say(text):\n    open({str(tmp_path / 'said')!r}, 'a').write(text + ' ')\n"

    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(head + text)
        return path

    return write


def said(tmp_path: Path) -> list[str]:
    return (tmp_path / "said").read_text().split()


THREADS = """
import atexit, threading, time
atexit.register(say, "first")

@atexit.register
def last():
    say("last")

def serve():
    time.sleep(0.1)
    say("served")
    threading.Thread(target=say, args=("handed_on",)).start()

threading.Thread(target=serve).start()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
say("main")
"""


def test_threads_are_waited_for_and_then_exit_handlers_run_the_last_one_first(script: Write, tmp_path: Path) -> None:
    assert run_script(script(THREADS)).status == "ok"
    assert said(tmp_path) == ["main", "served", "handed_on", "last", "first"]


def test_script_that_raised_has_its_threads_and_handlers_too(script: Write, tmp_path: Path) -> None:
    run = run_script(script(f"{THREADS}\n1 / 0"))
    assert run.error is not None
    assert run.error.startswith("ZeroDivisionError")
    assert said(tmp_path)[-1] == "first"


def test_hard_exit_waits_for_nothing(script: Write, tmp_path: Path) -> None:
    before = {*threading.enumerate()}
    with hard_exits_seen():
        run = run_script(script(f"{THREADS}\nimport os; os._exit(0)"))
    assert run.status == "ok"
    assert "last" not in said(tmp_path)
    for thread in threading.enumerate():
        if thread not in before and not thread.daemon:
            thread.join()


def test_handler_that_was_taken_back_does_not_run(script: Write, tmp_path: Path) -> None:
    run_script(script("import atexit\natexit.register(say, 'no')\natexit.unregister(say)\nsay('yes')"))
    assert said(tmp_path) == ["yes"]


def test_handler_that_raises_is_printed_and_the_next_one_runs(
    script: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_script(script("import atexit\natexit.register(say, 'next')\natexit.register(lambda: 1 / 0)"))
    assert run.status == "ok"
    assert said(tmp_path) == ["next"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_handler_that_exits_gives_the_code_where_the_program_gave_none(script: Write) -> None:
    text = "import atexit, sys\natexit.register(sys.exit, 3)\n"
    assert run_script(script(text)).exit_code == 3
    assert run_script(script(f"{text}sys.exit(4)")).exit_code == 4


def test_workers_of_a_pool_that_nobody_shut_down_finish_and_pools_go_on(script: Write, tmp_path: Path) -> None:
    text = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(say, 'done')"
    for _ in range(2):
        assert run_script(script(text)).status == "ok"
    assert said(tmp_path) == ["done", "done"]


def test_pool_that_is_older_than_the_program_goes_on(script: Write) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        assert run_script(script("say('done')")).status == "ok"
        assert pool.submit(int).result() == 0


def test_worker_that_an_older_pool_starts_meanwhile_is_not_waited_for(
    script: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()
        monkeypatch.setattr(sys, "pool_of_a_test", pool, raising=False)
        busy = "import sys, time\ndone = [sys.pool_of_a_test.submit(time.sleep, 0.1) for _ in range(3)]\n"
        assert run_script(script(f"{busy}say('done')")).status == "ok"
        assert pool.submit(int).result() == 0


def test_handlers_of_libraries_stay_python_s() -> None:
    before = atexit.register
    with ending_seen() as ending:
        exec(compile("import atexit\natexit.register(print)", atexit.__spec__.origin or "x", "exec"), {})  # noqa: S102 (as if the standard library did)
        atexit.unregister(print)
    assert ending.handlers == []
    assert atexit.register is before


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [(None, "ok", 0), (0, "ok", 0), (False, "ok", 0), (True, "exited", 1), (3, "exited", 3), (0.0, "exited", 1)],
)
def test_code_of_an_exit_means_what_it_means_to_python(code: object, status: str, exit_code: int) -> None:
    def leave() -> None:
        raise SystemExit(code)

    run = ended(leave).run
    assert (run.status, run.exit_code) == (status, exit_code)
