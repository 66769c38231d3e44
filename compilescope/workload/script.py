"""Runs a script the way ``python script.py`` does, and tells how it ended."""

from __future__ import annotations

import contextlib
import runpy
import sys
from typing import TYPE_CHECKING

from compilescope.record import Run
from compilescope.workload.faults import one_line, user_traceback
from compilescope.workload.signals import interruption

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def run_script(path: Path, arguments: Sequence[str] = ()) -> Run:
    """Run the file at ``path`` as ``__main__`` and return how it ended; nothing that it raises escapes.

    ``sys.argv`` holds the script and ``arguments``, and its folder comes first on ``sys.path``;
    both are as before on return. ``sys.exit(0)`` is an ordinary end.
    """
    whole = path.resolve()
    try:
        with _as_program(whole, arguments):
            runpy.run_path(str(whole), run_name="__main__")
    except KeyboardInterrupt as error:
        return interruption(error)
    except SystemExit as error:
        return _exited(error)
    except BaseException as error:  # noqa: BLE001 (a user's script may raise anything, and what was recorded is kept)
        return Run(status="raised", error=one_line(error), traceback=user_traceback(error))
    return Run(status="ok")


@contextlib.contextmanager
def _as_program(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    before = list(sys.argv), list(sys.path)
    sys.argv[:] = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = before


def _exited(error: SystemExit) -> Run:
    if error.code is None or error.code == 0:
        return Run(status="ok", exit_code=0)
    if isinstance(error.code, int):
        return Run(status="exited", exit_code=error.code, error=f"sys.exit({error.code})")
    # Python prints any other value and exits 1.
    return Run(status="exited", exit_code=1, error=f"sys.exit: {error.code}")
