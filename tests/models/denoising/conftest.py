"""The tiny model, built once a module, and one thread to compute in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Let the tiny model compute in one thread; more of them only get into each other's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    """The tiny model with one layer of each kind; a test leaves it as it was."""
    from models.mammoth_moda2 import build

    from .making import SMALL

    return build("tiny", **SMALL)
