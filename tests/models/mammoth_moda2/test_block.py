"""The block's two kinds, its attention, and where the fused kernel takes over."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from diffusers.models.normalization import LuminaRMSNormZero, RMSNorm  # noqa: E402 (behind the skips)

import fused_ops  # noqa: E402
from models.attention import AttentionMetadata  # noqa: E402
from models.mammoth_moda2 import TransformerBlock  # noqa: E402
from models.mammoth_moda2.block import norm_and_rotate  # noqa: E402
from models.mammoth_moda2.rope import Rotary, axis_tables, look_up, text_positions, with_table  # noqa: E402

DIM, HEADS, KV_HEADS, TOKENS = 48, 6, 2, 5


def block(*, modulation: bool = True) -> TransformerBlock:
    torch.manual_seed(0)
    made = TransformerBlock(DIM, HEADS, KV_HEADS, multiple_of=16, modulation=modulation).eval()
    with torch.no_grad():
        for norm in (made.attn.norm_q, made.attn.norm_k):
            norm.weight.normal_()
    return made.requires_grad_(requires_grad=False)


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rotary(tokens: int = TOKENS, batch: int = 1) -> Rotary:
    return look_up(axis_tables((4, 2, 2), (64, 64, 64)), [text_positions(tokens, torch.device("cpu"))] * batch, tokens)


def test_modulation_decides_the_class_of_the_first_norm() -> None:
    assert type(block().norm1) is LuminaRMSNormZero
    assert type(block(modulation=False).norm1) is RMSNorm


def test_modulated_block_follows_the_published_order() -> None:
    made, x, temb = block(), random(1, TOKENS, DIM), random(1, DIM, seed=2)
    scale_msa, gate_msa, scale_mlp, gate_mlp = made.norm1.linear(torch.nn.functional.silu(temb)).chunk(4, dim=1)
    normed = made.norm1.norm(x) * (1 + scale_msa)
    attended = made.attn(normed, normed, image_rotary_emb=rotary())
    middle = x + gate_msa.tanh() * made.norm2(attended)
    ffn = made.feed_forward(made.ffn_norm1(middle) * (1 + scale_mlp))
    expected = middle + gate_mlp.tanh() * made.ffn_norm2(ffn)
    torch.testing.assert_close(made(x, None, rotary(), temb), expected)


def test_plain_block_follows_the_published_order() -> None:
    made, x = block(modulation=False), random(1, TOKENS, DIM)
    normed = made.norm1(x)
    middle = x + made.norm2(made.attn(normed, normed, image_rotary_emb=rotary()))
    torch.testing.assert_close(
        made(x, None, rotary()), middle + made.ffn_norm2(made.feed_forward(made.ffn_norm1(middle)))
    )


def test_modulated_block_without_a_timestep_says_so() -> None:
    with pytest.raises(ValueError, match="temb must be provided when modulation is enabled"):
        block()(random(1, TOKENS, DIM), None, rotary())


@pytest.mark.parametrize("masked", [True, False])
def test_empty_sequence_comes_back_empty_and_asks_no_kernel(
    masked: bool,  # noqa: FBT001 (a parameter of the table)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = block(modulation=False)
    monkeypatch.setattr(made.attn.processor, "attention", None)
    mask = torch.ones(2, 0, dtype=torch.bool) if masked else None
    assert made(random(2, 0, DIM), mask, rotary(0, 2)).shape == (2, 0, DIM)


@pytest.mark.parametrize("told", ["bare", "padding"])
def test_masked_rows_do_not_touch_true_rows(told: str) -> None:
    made, x = block(modulation=False), random(1, TOKENS, DIM)
    mask = torch.arange(TOKENS)[None] < 3
    given: Any = mask if told == "bare" else AttentionMetadata(mask, "padding")
    alone = made(x[:, :3], None, rotary(3))
    torch.testing.assert_close(made(x, given, rotary())[:, :3], alone)


def test_attention_of_masked_rows_is_zero() -> None:
    made, x = block(), random(2, TOKENS, DIM)
    mask = torch.arange(TOKENS) < torch.tensor([[3], [5]])
    out = made.attn(x, x, attention_mask=mask, image_rotary_emb=rotary(batch=2))
    assert not out[~mask].any()
    assert out[mask].all()


def test_backend_gets_grouped_heads_as_they_are_and_what_was_published(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    made = block()

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, metadata: Any) -> torch.Tensor:
        seen.append((query.shape[2], key.shape[2], value.shape[2], metadata))
        return query

    monkeypatch.setattr(made.attn.processor, "attention", attention)
    published = AttentionMetadata(mode="none")
    x = random(1, TOKENS, DIM)
    made.attn(x, x, attention_mask=published, image_rotary_emb=rotary())
    assert seen == [(HEADS, KV_HEADS, KV_HEADS, published)]


class TestFusing:
    """A table alone does not fuse: the layer must be one that the kernel computes."""

    @pytest.fixture(autouse=True)
    def interpreted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("triton")
        monkeypatch.setattr("fused_ops.launch.INTERPRETED", True)

    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
        seen: list[tuple[int, ...]] = []

        def fused(q: torch.Tensor, k: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
            seen.append(tuple(q.shape))
            return fused_ops.reference.qk_norm_rope(q, k, *rest)

        monkeypatch.setattr("models.mammoth_moda2.block.fused_ops.qk_norm_rope", fused)
        return seen

    def run(self, made: TransformerBlock, turned: Rotary | None) -> tuple[torch.Tensor, torch.Tensor]:
        query, key = random(2, TOKENS, HEADS, 8), random(2, TOKENS, KV_HEADS, 8, seed=3)
        return norm_and_rotate(made.attn, query, key, turned)

    def test_fused_call_is_the_eager_chain(self, calls: list[tuple[int, ...]]) -> None:
        eager = self.run(block(), rotary(batch=2))
        assert not calls
        fused = self.run(block(), with_table(rotary(batch=2), activation_dtype=torch.float32))
        assert calls == [(2 * TOKENS, HEADS, 8)]
        torch.testing.assert_close(fused, eager)

    @pytest.mark.parametrize("reason", ["no_table", "no_rope", "no_q_norm", "no_k_norm", "unequal_epsilon"])
    def test_other_layers_keep_the_eager_chain(self, reason: str, calls: list[tuple[int, ...]]) -> None:
        made = block()
        turned: Rotary | None = with_table(rotary(batch=2), activation_dtype=torch.float32)
        if reason == "no_table":
            turned = rotary(batch=2)
        elif reason == "no_rope":
            turned = None
        elif reason == "unequal_epsilon":
            made.attn.norm_q.eps = 1e-6
        else:
            setattr(made.attn, reason.removeprefix("no_").replace("q_norm", "norm_q").replace("k_norm", "norm_k"), None)
        query, key = self.run(made, turned)
        assert not calls
        assert (query.shape, key.shape) == ((2, TOKENS, HEADS, 8), (2, TOKENS, KV_HEADS, 8))
