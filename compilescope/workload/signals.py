"""Signals that ask the program to end: it ends, and what was recorded until then is kept."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

from compilescope.record import Run
from compilescope.workload.faults import user_traceback

if TYPE_CHECKING:
    from collections.abc import Iterator

TERMINATED: Final = 128 + signal.SIGTERM
"""What a shell makes of a program that SIGTERM ended."""


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. It ends whatever Ctrl-C would end, and passes what lets Ctrl-C pass."""


@contextlib.contextmanager
def termination_seen() -> Iterator[None]:
    """Let SIGTERM, which is how a time limit of CI begins, end the program as Ctrl-C does.

    Where something else handles or ignores the signal already, that stays; so does what the program does about it.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    process = os.getpid()

    def end(number: int, _: object) -> None:
        if os.getpid() == process:
            raise Terminated
        # A forked child has our handler too, and ends as it would without it.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def interruption(error: KeyboardInterrupt) -> Run:
    """Return how a run ended that ``error`` ended."""
    terminated = isinstance(error, Terminated)
    return Run(
        status="interrupted",
        exit_code=TERMINATED if terminated else None,
        error="terminated by SIGTERM" if terminated else "interrupted by Ctrl-C",
        traceback=user_traceback(error),
    )
