"""SIGTERM ends the program as Ctrl-C does, and changes nothing for whoever handles it themselves."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from compilescope.workloads.script import run_script
from compilescope.workloads.signals import Terminated, interruption, signals_seen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def unhandled() -> Iterator[None]:
    """Begin with nobody who handles the signal."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_program_that_is_terminated_ends_as_by_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt) as ended, signals_seen():
        terminate()
    run = interruption(ended.value)
    assert (run.status, run.exit_code, run.error) == ("interrupted", 143, "terminated by SIGTERM")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_script_that_is_terminated_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    with signals_seen():
        run = run_script(tmp_path / "program.py")
    assert (run.status, run.exit_code) == ("interrupted", 143)
    assert "program.py" in (run.traceback or "")


def test_ctrl_c_has_no_code_of_its_own() -> None:
    run = interruption(KeyboardInterrupt())
    assert (run.status, run.exit_code, run.error) == ("interrupted", None, "interrupted by Ctrl-C")


@pytest.mark.parametrize("others", [signal.SIG_IGN, lambda *_: None])
def test_handler_of_somebody_else_stays(others: object) -> None:
    signal.signal(signal.SIGTERM, others)
    with signals_seen():
        assert signal.getsignal(signal.SIGTERM) is others
        terminate()
    assert signal.getsignal(signal.SIGTERM) is others


def test_handler_of_the_program_is_the_one_that_is_called() -> None:
    called: list[int] = []
    with signals_seen():
        signal.signal(signal.SIGTERM, lambda number, _: called.append(number))
        terminate()
    assert called == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_forked_child_ends_by_the_signal() -> None:
    with signals_seen():
        child = os.fork()
        if child == 0:
            terminate()
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM


def test_thread_that_is_not_the_main_one_leaves_signals_alone() -> None:
    entered: list[object] = []

    def enter() -> None:
        with signals_seen():
            entered.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [signal.SIG_DFL]


def test_what_catches_exceptions_lets_termination_pass() -> None:
    assert not issubclass(Terminated, Exception)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_waits_once_the_program_has_ended(number: signal.Signals) -> None:
    with signals_seen() as signals:
        signals.wait()
        os.kill(os.getpid(), number)
        assert signals.code == 128 + number
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_first_signal_decides_and_a_second_ctrl_c_does_not_wait() -> None:
    with signals_seen() as signals:
        signals.wait()
        terminate()
        terminate()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signals.code == 143


def test_handlers_that_the_program_left_are_not_called_for_the_report() -> None:
    called: list[int] = []
    with signals_seen() as signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: called.append(number))
        signals.wait()
        terminate()
    assert (signals.code, called) == (143, [])


def test_ctrl_c_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_seen() as signals:
            signals.wait()
            os.kill(os.getpid(), signal.SIGINT)
        assert signals.code is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_timer_of_the_program_does_not_go_off_behind_it() -> None:
    with signals_seen() as signals:
        signal.setitimer(signal.ITIMER_REAL, 1000)
        signals.wait()
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_timer_of_somebody_else_goes_on() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000)
    try:
        with signals_seen() as signals:
            signals.wait()
            assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
