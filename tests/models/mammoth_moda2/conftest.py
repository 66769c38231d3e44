"""The tiny model, built once, and a way to call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


@pytest.fixture
def forward() -> Callable[..., torch.Tensor]:
    """Call a model at a size in patches, without gradients."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")
    from models.diffusers_dits import Size
    from models.mammoth_moda2 import inputs, tables

    def call(
        model: Any, height: int = 3, width: int = 7, text_len: int = 5, batch: int = 1, **more: Any
    ) -> torch.Tensor:
        with torch.no_grad():
            return model(**{**inputs(model, Size(height, width, text_len, batch), tables(model)), **more})

    return call
