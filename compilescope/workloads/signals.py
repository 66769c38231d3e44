"""Signals that ask the program to end: it ends, and what was recorded until then is kept and written."""

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
"""What a shell makes of a program that SIGTERM ended."""

_TIMERS: Final = frozenset({signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF})


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. It ends whatever Ctrl-C would end, and passes what lets Ctrl-C pass."""


class Signals:
    """What becomes of SIGTERM and Ctrl-C: they end the program that runs; once it has ended, they wait."""

    def __init__(self) -> None:
        """Let nothing wait yet."""
        self._process = os.getpid()
        self._handled: set[int] = set()
        self._waiting = False
        self._timers = {timer for timer in _TIMERS if signal.getitimer(timer) != (0.0, 0.0)}
        self.code: int | None = None
        """What to exit with for a signal that has waited; None where none has come."""

    def handle(self) -> None:
        """Take SIGTERM from now on, where nothing else handles or ignores it and signals can be taken at all."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handled.add(signal.SIGTERM)
            signal.signal(signal.SIGTERM, self._terminate)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._handled.add(signal.SIGINT)

    def wait(self) -> None:
        """Let signals wait from now on, until all that was recorded is written; a second Ctrl-C does not."""
        self._waiting = True
        # The program has ended, and with it what its timers were for; one that was set before is somebody else's.
        for timer in _TIMERS - self._timers:
            signal.setitimer(timer, 0)
        # The program may have put its own handlers there, too.
        for number, handler in ((signal.SIGTERM, self._terminate), (signal.SIGINT, self._interrupt)):
            if number in self._handled:
                signal.signal(number, handler)

    def release(self) -> None:
        """Put back what was there."""
        for number, handler in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
            if number in self._handled:
                signal.signal(number, handler)

    def _terminate(self, number: int, _: object) -> None:
        if os.getpid() != self._process:
            # A forked child has our handler too, and ends as it would without it.
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
    """Let SIGTERM, which is how a time limit of CI begins, end the program as Ctrl-C does.

    Where something else handles or ignores the signal already, that stays; so does what the program does about it.
    """
    signals = Signals()
    signals.handle()
    try:
        yield signals
    finally:
        signals.release()


def interruption(error: KeyboardInterrupt) -> Run:
    """Return how a run ended that ``error`` ended."""
    terminated = isinstance(error, Terminated)
    return Run(
        status="interrupted",
        exit_code=TERMINATED if terminated else None,
        error="terminated by SIGTERM" if terminated else "interrupted by Ctrl-C",
        traceback=user_traceback(error),
    )
