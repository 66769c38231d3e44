"""Runs a script the way ``python script.py`` does, and tells how it ended."""

from __future__ import annotations

import contextlib
import runpy
import sys
from typing import TYPE_CHECKING

from compilescope.workload.ending import ended, ending_seen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from compilescope.record import Run


def run_script(path: Path, arguments: Sequence[str] = ()) -> Run:
    """Run the file at ``path`` as ``__main__`` and return how it ended; nothing that it raises escapes.

    ``sys.argv`` holds the script and ``arguments``, and its folder comes first on ``sys.path``, unless
    Python runs with safe paths; both are as before on return. ``sys.exit(0)`` is an ordinary end.
    """
    whole = path.resolve()
    with _as_program(whole, arguments), ending_seen() as ending:
        run = ended(lambda: runpy.run_path(str(whole), run_name="__main__"))
        if run.hard:
            return run.run
        last = ended(ending.come)
    # What a thread or an exit handler ends with is the end where the program itself ended well.
    return run.run if last.run.status == "ok" or run.run.status != "ok" else last.run


@contextlib.contextmanager
def _as_program(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    before = list(sys.argv), list(sys.path)
    sys.argv[:] = [str(path), *arguments]
    if not sys.flags.safe_path:
        sys.path.insert(0, str(path.parent))
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = before
