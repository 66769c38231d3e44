"""Keeps what a test compiles and sets from every other test."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Give the block an empty cache; behind it, drop what it compiled and put its settings back.

    Settings are those of Dynamo and of symbolic shapes; they are thread-local, and so is what is put back.
    """
    from compilescope.capture import _torch  # noqa: PLC0415 (imports torch)

    _torch.reset()
    before = _torch.config_snapshot()
    try:
        yield
    finally:
        _torch.restore_config(before)
        _torch.reset()
