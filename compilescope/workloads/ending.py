"""Ends a program as Python does: waits for threads, then calls the exit handlers.

A server's worker threads, and what a script registers with ``atexit``, compile and run like anything else.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import sysconfig
import threading
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from compilescope.record import Run
from compilescope.workloads.exits import EXIT_TEXT, HardExit, Replaced
from compilescope.workloads.faults import one_line, text_of, user_traceback
from compilescope.workloads.signals import interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LIBRARIES: Final = frozenset({"stdlib", "platstdlib", "purelib", "platlib"})


@dataclass(slots=True)
class Ending:
    """What remains to do after the program's last line.

    Attributes:
        before: the threads that ran before the program did.
        handlers: what the program's own code registered with ``atexit``, in order.
    """

    before: frozenset[threading.Thread]
    handlers: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def come(self) -> None:
        """Wait for the program's non-daemon threads, and call its exit handlers, the last one first.

        Raises:
            KeyboardInterrupt: the user stops the wait.
            SystemExit: a handler ends the program with its own exit code.
        """
        _end_idle_workers(self.before)
        while (thread := self._running()) is not None:
            thread.join()
        while self.handlers:
            function, args, kwargs = self.handlers.pop()
            try:
                function(*args, **kwargs)
            except Exception:  # noqa: BLE001 (a user's handler may raise anything; Python prints it and goes on)
                traceback.print_exc()

    def _running(self) -> threading.Thread | None:
        # An older pool may have started another worker since; it never ends by itself.
        others = {threading.current_thread(), *self.before, *_pools(self.before).older}
        alive = (thread for thread in threading.enumerate() if not thread.daemon and thread not in others)
        return next(alive, None)


@contextlib.contextmanager
def ending_seen() -> Iterator[Ending]:
    """Keep the exit handlers that the program registers, to call them while it is observed.

    Python still calls those of libraries: the report may need what they clean up.
    """
    ending = Ending(frozenset(threading.enumerate()))
    register, unregister = atexit.register, atexit.unregister

    def kept(function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Callable[..., object]:  # noqa: ANN401 (a handler's own)
        if _is_library(sys._getframe(1).f_code.co_filename):  # noqa: SLF001 (who registers decides)
            return register(function, *args, **kwargs)
        ending.handlers.append((function, args, kwargs))
        return function

    def dropped(function: Callable[..., object]) -> None:
        ending.handlers[:] = [handler for handler in ending.handlers if handler[0] != function]
        unregister(function)

    atexit.register, atexit.unregister = kept, dropped  # type: ignore[assignment]
    try:
        yield ending
    finally:
        atexit.register, atexit.unregister = register, unregister


@dataclass(frozen=True, slots=True)
class Ended:
    """How a part of the program ended; ``hard`` if it ended the process, so that nothing follows."""

    run: Run
    hard: bool = False


def ended(part: Callable[[], object]) -> Ended:
    """Run a part of a program and return how it ended; its exceptions do not propagate."""
    try:
        part()
    except HardExit as error:
        return Ended(_exited(error), hard=True)
    except KeyboardInterrupt as error:
        return Ended(interruption(error), hard=True)
    except SystemExit as error:
        return Ended(_exited(error))
    except BaseException as error:  # noqa: BLE001 (a user's script may raise anything, and what was recorded is kept)
        return Ended(Run(status="raised", error=one_line(error), traceback=user_traceback(error)))
    return Ended(Run(status="ok"))


def _exited(error: SystemExit) -> Run:
    if isinstance(error, Replaced):
        return Run(status="exited", error=str(error))
    # Python prints any other value, even 0.0, and exits 1.
    if error.code is None or (isinstance(error.code, int) and error.code == 0):
        return Run(status="ok", exit_code=0)
    if isinstance(error.code, int):
        return Run(status="exited", exit_code=error.code, error=f"sys.exit({error.code})")
    return Run(status="exited", exit_code=1, error=f"{EXIT_TEXT}{text_of(error.code)}")


def _is_library(file: str) -> bool:
    """Whether a file belongs to Python or an installed package."""
    folders = {Path(path) for name, path in sysconfig.get_paths().items() if name in _LIBRARIES}
    return not Path(file).is_absolute() or any(Path(file).is_relative_to(folder) for folder in folders)


@dataclass(frozen=True, slots=True)
class _Pools:
    """The workers of thread pools that were not shut down, each with its queue.

    Attributes:
        own: those of pools that the program made.
        older: those of pools that are older than the program, and so are not the program's.
    """

    own: dict[threading.Thread, Any]
    older: dict[threading.Thread, Any]


def _pools(before: frozenset[threading.Thread]) -> _Pools:
    module: Any = sys.modules.get("concurrent.futures.thread")
    queues = {} if module is None else dict(module._threads_queues)  # noqa: SLF001 (the library has no public way)
    older = {id(queue) for thread, queue in queues.items() if thread in before}
    return _Pools(
        own={thread: queue for thread, queue in queues.items() if id(queue) not in older},
        older={thread: queue for thread, queue in queues.items() if id(queue) in older},
    )


def _end_idle_workers(before: frozenset[threading.Thread]) -> None:
    """Let the workers of the program's pools finish their queues and end, as Python does.

    Ending the workers of an older pool would shut it down for good.
    """
    module: Any = sys.modules.get("concurrent.futures.thread")
    if module is None:
        return
    own = _pools(before).own
    module._shutdown = True  # noqa: SLF001 (as above)
    try:
        for queue in own.values():
            queue.put(None)
        for thread in own:
            thread.join()
    finally:
        module._shutdown = False  # noqa: SLF001 (the process goes on, and may use pools)
