"""Runs a script the way ``python script.py`` does, and reports how it ended."""

from __future__ import annotations

import contextlib
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from compilescope.workloads.ending import ended, ending_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from compilescope.record import Run


def run_script(path: Path, arguments: Sequence[str] = ()) -> Run:
    """Run the file at ``path`` as ``__main__`` and return how it ended; its exceptions do not propagate.

    ``sys.argv`` holds the script and ``arguments``, and its folder comes first on ``sys.path``, unless Python runs with
    safe paths; both are restored on return. ``sys.exit(0)`` is an ordinary end.
    """
    whole = path.resolve()
    return _run(lambda: runpy.run_path(str(whole), run_name="__main__"), [str(whole), *arguments], whole.parent)


def run_module(name: str, arguments: Sequence[str] = ()) -> Run:
    """Run a module as ``python -m`` does: the working folder comes first on ``sys.path``; else like a script."""
    return _run(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), [name, *arguments], Path.cwd())


def _run(program: Callable[[], object], argv: list[str], folder: Path) -> Run:
    with _as_program(argv, folder), ending_seen() as ending:
        run = ended(program)
        if run.hard:
            return run.run
        last = ended(ending.come)
    # If the program itself ended well, the end of its threads or exit handlers counts.
    return run.run if last.run.status == "ok" or run.run.status != "ok" else last.run


@contextlib.contextmanager
def _as_program(argv: list[str], folder: Path) -> Iterator[None]:
    before = list(sys.argv), list(sys.path)
    sys.argv[:] = argv
    if not sys.flags.safe_path:
        sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = before
