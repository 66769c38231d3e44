"""Programs that end their process from within: what was recorded until then must not be lost, nor pass for success."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

_BROKEN = 2
"""What a process ends with that was to judge a program and cannot."""


class HardExit(SystemExit):
    """What ``os._exit`` in the program became: Python would have waited for no thread, and called no exit handler."""


@contextlib.contextmanager
def hard_exits_seen() -> Iterator[None]:
    """Let ``os._exit`` in the program under observation end the program, and not the observer.

    Training scripts end so, lest a teardown hang. In the main thread it becomes ``SystemExit``. Another
    thread cannot end the program in any other way, so the process does end there, with a sentence, and
    never with 0. A forked child may do as it likes.
    """
    original, process = os._exit, os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() != process:
            original(status)
        if threading.current_thread() is threading.main_thread():
            raise HardExit(status)
        sys.stderr.write(f"The program called os._exit({status}) in a thread: nothing of it could be reported.\n")
        sys.stderr.flush()
        original(status or _BROKEN)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = original
