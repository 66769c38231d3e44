"""Keeps what a test compiles and sets away from every other test."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def start_over() -> None:
    """Reset Dynamo to the state of a new process, after a test that was the first to import torch."""
    from compilescope.capture import _torch, _torch_config  # noqa: PLC0415 (imports torch)

    _torch_config.restore_config(_torch_config.untouched_config())
    _torch.reset()


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Give the block an empty cache; after it, drop what it compiled and restore the settings.

    The settings are those of Dynamo and of symbolic shapes; they are thread-local, and so is the restore.
    """
    from compilescope.capture import _torch, _torch_config  # noqa: PLC0415 (imports torch)

    _torch.reset()
    before = _torch_config.config_snapshot()
    try:
        yield
    finally:
        _torch_config.restore_config(before)
        _torch.reset()
