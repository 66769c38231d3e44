"""What a model publishes about its mask is checked, and tokens are laid out as the lengths say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.attention import AttentionMetadata, Packing  # noqa: E402 (behind the skip)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_packing_holds_every_true_token_once_in_order(lengths: list[int]) -> None:
    padded = max(lengths)
    packing = Packing.of(lengths, padded, torch.device("cpu"))
    mask = torch.arange(padded) < torch.tensor(lengths)[:, None]
    assert packing.indices.tolist() == mask.flatten().nonzero().flatten().tolist()
    assert packing.boundaries.tolist() == [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    assert packing.boundaries.dtype == torch.int32


@pytest.mark.parametrize(
    ("mask", "mode", "says"),
    [
        (None, "padding", "mask mode 'padding' needs a mask"),
        (None, "arbitrary", "mask mode 'arbitrary' needs a mask"),
        (torch.ones(1, 1), "unknown", "mask mode 'unknown' is none of none, padding, arbitrary"),
    ],
)
def test_mode_that_does_not_fit_is_refused(mask: Any, mode: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        AttentionMetadata(mask, mode)


def test_mask_said_to_mask_nothing_is_not_used() -> None:
    mask = torch.ones(1, 1, dtype=torch.bool)
    assert AttentionMetadata(mask, "none").effective_mask is None
    assert AttentionMetadata(mask, "padding").effective_mask is mask
    assert AttentionMetadata(mask).effective_mask is mask
