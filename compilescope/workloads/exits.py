"""Programs that end their own process: their recording must not be lost, nor count as success."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compilescope.record import Run

_BROKEN = 2
"""The exit code of a process that cannot judge its program."""


EXIT_TEXT: Final = "sys.exit: "
"""The start of the error of a run that ended with a text, which Python prints."""


class HardExit(SystemExit):
    """Raised in place of ``os._exit``, for which Python waits for no thread and calls no exit handler."""


class Replaced(HardExit):
    """Raised in place of ``os.exec*``: the program would become another one, which is not recorded."""


@contextlib.contextmanager
def hard_exits_seen() -> Iterator[None]:
    """Let ``os._exit`` and ``os.exec*`` in the observed program end the program, and not the observer.

    Training scripts end this way because a teardown might hang, and launchers become what they launch. In the main
    thread the call raises ``SystemExit``. Another thread cannot end the program in any other way, so the process does
    end there, with a message, and never with 0. Forked children are not changed.
    """
    originals = os._exit, os.execv, os.execve
    process = os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() != process:
            originals[0](status)
        check_thread(f"os._exit({status})", status)
        raise HardExit(status)

    def becoming(original: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        def become(path: Any, *arguments: Any) -> NoReturn:  # noqa: ANN401 (whatever a program may give)
            if os.getpid() != process or not _is_program(path):
                original(path, *arguments)
            call = f"os.exec({path if isinstance(path, int) else os.fsdecode(path)!r})"
            check_thread(call, _BROKEN)
            msg = f"{call}: the program that it becomes is not recorded"
            raise Replaced(msg)

        return become

    def check_thread(call: str, status: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            sys.stderr.write(f"The program called {call} in a thread, so nothing could be reported.\n")
            sys.stderr.flush()
            originals[0](status or _BROKEN)

    os._exit, os.execv, os.execve = leave, becoming(os.execv), becoming(os.execve)
    try:
        yield
    finally:
        os._exit, os.execv, os.execve = originals


def _is_program(path: Any) -> bool:  # noqa: ANN401 (as above)
    """Whether a process could become this; Python's search along PATH also tries paths that do not exist."""
    return isinstance(path, int) or (Path(os.fsdecode(path)).is_file() and os.access(path, os.X_OK))


def leave_as_child(process: int, run: Run) -> None:
    """End a forked child that ran the program to its end, as Python would: its parent writes the report.

    Args:
        process: the one that started the program.
        run: how it ended here.

    Raises:
        SystemExit: this is another process.
    """
    if os.getpid() == process:
        return
    if run.traceback is not None:
        sys.stderr.write(f"{run.traceback}\n")
    elif run.error is not None and run.error.startswith(EXIT_TEXT):
        sys.stderr.write(f"{run.error.removeprefix(EXIT_TEXT)}\n")
    sys.exit(run.exit_code if run.exit_code is not None else int(run.status != "ok"))
