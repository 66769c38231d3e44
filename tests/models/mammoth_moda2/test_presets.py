"""Configurations: the released widths, seeded weights, and the full size without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.diffusers_dits import Size  # noqa: E402 (behind the skips)
from models.mammoth_moda2 import build, inputs, tables  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable


def test_same_seed_same_weights() -> None:
    first, second, other = (build(seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert not torch.equal(first["x_embedder.weight"], other["x_embedder.weight"])


def test_weights_are_normal_biases_zero_norms_one() -> None:
    state = build().state_dict()
    assert state["layers.0.feed_forward.linear_1.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert not state["x_embedder.bias"].any()
    assert (state["layers.0.attn.norm_q.weight"] == 1).all()


def test_preview_block_has_the_published_number_of_parameters() -> None:
    """16.9 million in attention, 77.4 in the feed-forward, 10.3 in the modulation."""
    layer = build("preview", device="meta", num_layers=1).layers[0]
    assert layer.feed_forward.linear_1.out_features == 10240
    counts = {
        name: sum(p.numel() for p in getattr(layer, name).parameters()) for name in ("attn", "feed_forward", "norm1")
    }
    assert {name: round(count / 1e6, 1) for name, count in counts.items()} == {
        "attn": 16.9, "feed_forward": 77.4, "norm1": 10.3,
    }  # fmt: skip


def test_full_size_runs_on_meta_in_any_dtype() -> None:
    model = build("preview", device="meta", dtype=torch.bfloat16)
    assert (len(model.layers), len(model.context_refiner)) == (26, 2)
    size = Size(64, 48, 77, device="meta", dtype=torch.bfloat16)
    with torch.no_grad():
        out = model(**inputs(model, size, tables(model, "meta")))
    assert (out.shape, out.dtype) == ((1, 16, 128, 96), torch.bfloat16)


def test_bfloat16_stays_bfloat16(forward: Callable[..., torch.Tensor]) -> None:
    model = build(dtype=torch.bfloat16)
    more = {"hidden_states": torch.ones(1, 16, 6, 14).bfloat16(), "text_hidden_states": torch.ones(1, 5, 64).bfloat16()}
    assert forward(model, **more).dtype == torch.bfloat16


def test_unknown_size_is_refused() -> None:
    with pytest.raises(ValueError, match="size is tiny or preview, not 'huge'"):
        build("huge")
