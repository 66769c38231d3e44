"""The working folder of a program that may leave or delete it: paths are relative to the user's folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def folder_kept() -> Iterator[None]:
    """Return to the working folder after the block, even if it was deleted.

    A report for that folder then fails with a message. It is never written somewhere else.
    """
    home = Path.cwd()
    descriptor = os.open(home, os.O_PATH)
    try:
        yield
    finally:
        # A program that becomes a daemon closes every descriptor.
        with contextlib.suppress(OSError):
            _go_to(home, descriptor)
            os.close(descriptor)


def _go_to(home: Path, descriptor: int) -> None:
    try:
        os.chdir(home)
    except OSError:
        os.fchdir(descriptor)


@contextlib.contextmanager
def program_may_wander() -> Iterator[None]:
    """Return to the working folder after the block; if it was deleted, to its nearest existing parent.

    Explaining a run reads its files, and needs a working folder.
    """
    home = Path.cwd()
    try:
        yield
    finally:
        for folder in (home, *home.parents):
            with contextlib.suppress(OSError):
                os.chdir(folder)
                break
