"""stdout and stderr of a program that may replace, redirect or close them: our output must still arrive."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def streams_kept() -> Iterator[None]:
    """Restore ``sys.stdout`` and ``sys.stderr`` after the block, whatever was done to them."""
    with _kept("stdout", 1), _kept("stderr", 2):
        yield


@contextlib.contextmanager
def _kept(name: str, descriptor: int) -> Iterator[None]:
    stream: TextIO | None = getattr(sys, name)
    if stream is None:
        yield
        setattr(sys, name, None)
        return
    encoding, errors = stream.encoding, stream.errors
    copy: int | None = None
    with contextlib.suppress(OSError):
        copy = os.dup(descriptor)
    try:
        yield
    finally:
        # The program's output goes where the program wanted it.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        if copy is not None:
            with contextlib.suppress(OSError):  # a program that becomes a daemon closes every descriptor
                os.dup2(copy, descriptor)
                os.close(copy)
        setattr(sys, name, stream if _is_usable(stream) else _opened(descriptor, encoding, errors))


def _opened(descriptor: int, encoding: str, errors: str | None) -> TextIO | None:
    try:
        return open(descriptor, "w", encoding=encoding, errors=errors, closefd=False)
    except OSError:  # it stays closed: to Python, a stream that does not exist
        return None


def _is_usable(stream: TextIO) -> bool:
    try:
        return not stream.closed
    except ValueError:  # its buffer was detached
        return False
