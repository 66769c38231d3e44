"""Signals that ask the program to end: it ends, and its recording until then is kept and written."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

from compilescope.record import Run
from compilescope.workloads.faults import user_traceback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

TERMINATED: Final = 128 + signal.SIGTERM
"""The shell's exit code for a program that SIGTERM ended."""

_TIMERS: Final = frozenset({signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF})


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. It ends everything that Ctrl-C ends, and propagates wherever Ctrl-C does."""


class Signals:
    """Handles SIGTERM and Ctrl-C: they end the running program; once it has ended, they wait."""

    def __init__(self) -> None:
        """No signal waits yet."""
        self._process = os.getpid()
        self._handled: set[int] = set()
        self._waiting = False
        self._timers = {timer for timer in _TIMERS if signal.getitimer(timer) != (0.0, 0.0)}
        self.code: int | None = None
        """The exit code for a signal that has waited; None if none came."""

    def handle(self) -> None:
        """Handle SIGTERM from now on, unless something else handles or ignores it or signals cannot be handled."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handled.add(signal.SIGTERM)
            signal.signal(signal.SIGTERM, self._terminate)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._handled.add(signal.SIGINT)

    def wait(self) -> None:
        """Let signals wait from now on, until the recording is written; a second Ctrl-C does not wait."""
        self._waiting = True
        # The program has ended, so its timers are useless; an earlier timer is not the program's.
        for timer in _TIMERS - self._timers:
            signal.setitimer(timer, 0)
        # The program may have installed its own handlers.
        for number, handler in ((signal.SIGTERM, self._terminate), (signal.SIGINT, self._interrupt)):
            if number in self._handled:
                signal.signal(number, handler)

    def release(self) -> None:
        """Restore the previous handlers."""
        for number, handler in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
            if number in self._handled:
                signal.signal(number, handler)

    def _terminate(self, number: int, _: object) -> None:
        if os.getpid() != self._process:
            # A forked child inherits our handler, and ends as it would without it.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self._waiting:
            self.code = self.code or TERMINATED
        else:
            raise Terminated

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process or self.code is not None:
            signal.default_int_handler(number, frame)
        self.code = 128 + number


@contextlib.contextmanager
def signals_seen() -> Iterator[Signals]:
    """Let SIGTERM, the first signal of a CI timeout, end the program as Ctrl-C does.

    If something else already handles or ignores the signal, that stays; so do the program's own handlers.
    """
    signals = Signals()
    signals.handle()
    try:
        yield signals
    finally:
        signals.release()


def interruption(error: KeyboardInterrupt) -> Run:
    """Return how a run ended, given the error that ended it."""
    terminated = isinstance(error, Terminated)
    return Run(
        status="interrupted",
        exit_code=TERMINATED if terminated else None,
        error="terminated by SIGTERM" if terminated else "interrupted by Ctrl-C",
        traceback=user_traceback(error),
    )
