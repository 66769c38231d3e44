"""The transformer block, in two kinds, and its attention processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from diffusers.models.attention import LuminaFeedForward
from diffusers.models.attention_processor import Attention
from diffusers.models.normalization import LuminaRMSNormZero, RMSNorm
from torch import nn

import fused_ops
from models.attention import AttentionMetadata, Backend, Geometry, make_attention
from models.mammoth_moda2.rope import Rotary, rotate

if TYPE_CHECKING:
    Mask = torch.Tensor | AttentionMetadata | None

HEAD_NORM_EPS = 1e-5
PADDING_RANK = 2


class AttnProcessor:
    """Self-attention with grouped heads, normalised and rotated query and key.

    Args:
        attention: the backend that all blocks of a model share.
    """

    def __init__(self, attention: Backend) -> None:
        self.attention = attention

    def __call__(
        self,
        attn: Attention,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        attention_mask: Mask = None,
        image_rotary_emb: Rotary | None = None,
    ) -> torch.Tensor:
        """Attend from ``[B, S, width]`` to ``[B, Sk, width]``.

        Args:
            attn: diffusers' container of the projections and head norms.
            hidden_states: queries come from here.
            encoder_hidden_states: keys and values come from here.
            attention_mask: what the model published, or a bare ``[B, Sk]`` mask that says nothing
                about itself.
            image_rotary_emb: rotations of the ``S`` tokens.

        Returns:
            ``[B, S, width]``; rows of masked tokens are zero before the output projection, which has no bias.
        """
        batch, tokens, _ = hidden_states.shape
        width = attn.to_q.out_features
        if tokens == 0 or encoder_hidden_states.shape[1] == 0:
            # The backstop of the model's own skip: some kernels refuse an empty call. Under Dynamo this
            # comparison makes a graph of its own for length 0.
            return self._project(attn, hidden_states.new_zeros((batch, tokens, width)))
        heads = (-1, width // attn.heads)
        query = attn.to_q(hidden_states).unflatten(-1, heads)
        key = attn.to_k(encoder_hidden_states).unflatten(-1, heads)
        value = attn.to_v(encoder_hidden_states).unflatten(-1, heads)
        query, key = norm_and_rotate(attn, query, key, image_rotary_emb)
        metadata = attention_mask
        if isinstance(metadata, torch.Tensor):
            metadata = AttentionMetadata(metadata.bool())
        out = self.attention(query, key, value, metadata)
        mask = None if metadata is None else metadata.effective_mask
        if mask is not None and mask.dim() == PADDING_RANK:
            out = out * mask[:, :, None, None]
        return self._project(attn, out.flatten(-2).type_as(query))

    def _project(self, attn: Attention, out: torch.Tensor) -> torch.Tensor:
        for layer in attn.to_out:
            out = layer(out)
        return out


def norm_and_rotate(
    attn: Attention, query: torch.Tensor, key: torch.Tensor, rotary: Rotary | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalise and rotate each head of ``[B, S, heads, D]`` query and key, fused where it can be.

    The kernel has one epsilon and both norms; any other layer keeps the eager chain, as does a model
    that packed no table.
    """
    norm_q, norm_k = attn.norm_q, attn.norm_k
    if (
        rotary is not None
        and rotary.table is not None
        and norm_q is not None
        and norm_k is not None
        and norm_q.eps == norm_k.eps
    ):
        fused_q, fused_k = fused_ops.qk_norm_rope(
            query.flatten(0, 1), key.flatten(0, 1), norm_q.weight, norm_k.weight, rotary.table, norm_q.eps
        )
        return fused_q.view(query.shape), fused_k.view(key.shape)
    dtype = query.dtype
    query = query if norm_q is None else norm_q(query)
    key = key if norm_k is None else norm_k(key)
    if rotary is not None:
        query, key = rotate(query, rotary), rotate(key, rotary)
    return query.to(dtype), key.to(dtype)


class TransformerBlock(nn.Module):
    """Attention and feed-forward, each between two RMSNorms and gated if modulated.

    Args:
        dim: width.
        num_attention_heads: query heads.
        num_kv_heads: key and value heads.
        multiple_of: the feed-forward's inner width is rounded up to a multiple of this.
        ffn_dim_multiplier: what ``4 * dim`` is multiplied by before, if anything.
        norm_eps: of the four norms.
        modulation: whether the timestep scales and gates; it makes ``norm1`` another class.
        attention: the backend, which all blocks of a model share; SDPA if None.
    """

    def __init__(  # noqa: PLR0913 (the published block's settings)
        self,
        dim: int,
        num_attention_heads: int,
        num_kv_heads: int,
        *,
        multiple_of: int = 256,
        ffn_dim_multiplier: float | None = None,
        norm_eps: float = 1e-5,
        modulation: bool = True,
        attention: Backend | None = None,
    ) -> None:
        super().__init__()
        head_dim = dim // num_attention_heads
        self.modulation = modulation
        if attention is None:
            attention = make_attention("sdpa", Geometry(num_attention_heads, num_kv_heads, head_dim))
        self.attn = Attention(
            query_dim=dim,
            dim_head=head_dim,
            heads=num_attention_heads,
            kv_heads=num_kv_heads,
            qk_norm="rms_norm",
            eps=HEAD_NORM_EPS,
            bias=False,
            out_bias=False,
            processor=AttnProcessor(attention),  # type: ignore[arg-type]  # any callable will do
        )
        self.feed_forward = LuminaFeedForward(
            dim=dim, inner_dim=4 * dim, multiple_of=multiple_of, ffn_dim_multiplier=ffn_dim_multiplier
        )
        if modulation:
            self.norm1: nn.Module = LuminaRMSNormZero(dim, norm_eps=norm_eps, norm_elementwise_affine=True)
        else:
            self.norm1 = RMSNorm(dim, eps=norm_eps)
        self.ffn_norm1 = RMSNorm(dim, eps=norm_eps)
        self.norm2 = RMSNorm(dim, eps=norm_eps)
        self.ffn_norm2 = RMSNorm(dim, eps=norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Mask,
        image_rotary_emb: Rotary | None,
        temb: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Transform ``[B, S, dim]``; ``temb`` is ``[B, min(dim, 1024)]``.

        Raises:
            ValueError: the block is modulated and there is no ``temb``.
        """
        out: torch.Tensor
        if not self.modulation:
            normed = self.norm1(hidden_states)
            out = hidden_states + self.norm2(self._attend(normed, attention_mask, image_rotary_emb))
            out = out + self.ffn_norm2(self.feed_forward(self.ffn_norm1(out)))
            return out
        if temb is None:
            msg = "temb must be provided when modulation is enabled"
            raise ValueError(msg)
        normed, gate_attention, scale_ffn, gate_ffn = self.norm1(hidden_states, temb)
        attended = self._attend(normed, attention_mask, image_rotary_emb)
        out = hidden_states + gate_attention[:, None].tanh() * self.norm2(attended)
        scaled = self.ffn_norm1(out) * (1 + scale_ffn[:, None])
        out = out + gate_ffn[:, None].tanh() * self.ffn_norm2(self.feed_forward(scaled))
        return out

    def _attend(self, normed: torch.Tensor, mask: Mask, rotary: Rotary | None) -> torch.Tensor:
        out: torch.Tensor = self.attn(normed, normed, attention_mask=mask, image_rotary_emb=rotary)
        return out
