"""The working folder of a program that may leave it, or delete it: paths hold for the folder that the user is in."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def folder_kept() -> Iterator[None]:
    """Come back to the working folder behind the block; to what is left of it where it was deleted.

    A report that was to be written there then fails with a sentence. It is never written somewhere else.
    """
    home = Path.cwd()
    descriptor = os.open(home, os.O_PATH)
    try:
        yield
    finally:
        # A program that becomes a daemon closes every descriptor that it finds.
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
    """Stand in the working folder behind the block; where it was deleted, in the nearest folder around it.

    What is made of a run looks at the files that it speaks of, and needs a folder to be in.
    """
    home = Path.cwd()
    try:
        yield
    finally:
        for folder in (home, *home.parents):
            with contextlib.suppress(OSError):
                os.chdir(folder)
                break
