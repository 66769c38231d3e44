"""Attention processors that call the fused op where the block was given a table, and diffusers' own elsewhere.

Each takes the place of one or more of diffusers' processors and has their argument names, because diffusers'
attention hands over only what a processor's signature names. What a processor computes beside the fused op
(projections, masks, the attention itself) is what the eager one computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from diffusers.models.attention_dispatch import dispatch_attention_fn
from torch.nn import functional

if TYPE_CHECKING:
    from models.families.recipe import Processor

    QKV = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

NUMERICS: Final = "fast"
PADDING_RANK: Final = 2
OWN: Final = ("norm_q", "norm_k")
ADDED: Final = ("norm_added_q", "norm_added_k")
TEXT_FIRST: Final = ADDED + OWN
VIDEO_FIRST: Final = OWN + ADDED


@dataclass(frozen=True)
class Rotary:
    """What a fused block is given in place of the model's rotary embedding.

    Attributes:
        plain: the model's own, for a layer that stays eager.
        table: ``[B * S, R]``, ``[cos | sin]`` for each token of the joint sequence.
    """

    plain: Any
    table: torch.Tensor


class Fused:
    """A processor with the eager one behind it.

    Args:
        eager: what it replaces; diffusers sets a backend or a parallel plan on it through this one.
        joint: whether two streams go to the joint op; otherwise each to the per-stream op, and are concatenated.
    """

    def __init__(self, eager: Processor, joint: bool) -> None:  # noqa: FBT001 (called by one place, from a mapping)
        self.eager = eager
        self.joint = joint

    @property
    def _attention_backend(self) -> Any:
        return self.eager._attention_backend

    @_attention_backend.setter
    def _attention_backend(self, backend: Any) -> None:
        self.eager._attention_backend = backend

    @property
    def _parallel_config(self) -> Any:
        return self.eager._parallel_config

    @_parallel_config.setter
    def _parallel_config(self, config: Any) -> None:
        self.eager._parallel_config = config

    def _attend(self, qkv: QKV, mask: torch.Tensor | None) -> torch.Tensor:
        """Attend from and to ``[B, S, heads, D]``; return ``[B, S, heads * D]``."""
        out: torch.Tensor = dispatch_attention_fn(
            *qkv, attn_mask=mask, backend=self._attention_backend, parallel_config=self._parallel_config
        )
        return out.flatten(2, 3).to(qkv[0].dtype)

    def _fuses(self, attn: Any, norms: tuple[str, ...], rotary: object, x: torch.Tensor) -> bool:
        """Whether the op computes what this layer's norms compute.

        It has one epsilon and no bias, and it needs every norm's weight, all of them of one dtype. A sequence that
        several ranks share stays eager.
        """
        if not isinstance(rotary, Rotary) or self._parallel_config is not None:
            return False
        found: list[Any] = [getattr(attn, name, None) for name in norms]
        if any(norm is None or norm.weight is None or getattr(norm, "bias", None) is not None for norm in found):
            return False
        dtype, eps = found[0].weight.dtype, found[0].eps
        if eps is None or dtype not in {x.dtype, torch.float32}:
            return False
        return all(norm.eps == eps and norm.weight.dtype == dtype for norm in found)

    def _two_streams(self, attn: Any, norms: tuple[str, ...], streams: tuple[QKV, QKV], table: torch.Tensor) -> QKV:
        """Normalise, rotate and concatenate two streams ``[B, S_i, heads, D]``; ``norms`` has two names for each."""
        first, second = streams
        weights = [getattr(attn, name).weight for name in norms]
        eps: float = getattr(attn, norms[0]).eps
        if self.joint:
            joint: QKV = torch.ops.fused_ops.joint_qkv_norm_rope(
                *first, *second, *weights, table, eps, table.shape[-1], True, NUMERICS
            )
            return joint
        batch, split = first[0].shape[:2]
        rows = table.view(batch, split + second[0].shape[1], table.shape[-1])
        q0, k0 = _rotated(first, weights[:2], rows[:, :split].flatten(0, 1), eps)
        q1, k1 = _rotated(second, weights[2:], rows[:, split:].flatten(0, 1), eps)
        return torch.cat((q0, q1), 1), torch.cat((k0, k1), 1), torch.cat((first[2], second[2]), 1)


def _rotated(
    qkv: QKV, weights: list[torch.Tensor], table: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalise and rotate query and key of one stream ``[B, S, heads, D]``."""
    # The op itself and not fused_ops.qk_norm_rope, here and above: that asks for every layer what the packer asked
    # once a forward, and where no kernel runs it would put its reference's nodes into the graph in place of the op's.
    query, key, _ = qkv
    fused_q, fused_k = torch.ops.fused_ops.qk_norm_rope(
        query.flatten(0, 1), key.flatten(0, 1), *weights, table, eps, table.shape[-1], True, NUMERICS
    )
    return fused_q.view(query.shape), fused_k.view(key.shape)


def _one_stream(attn: Any, qkv: QKV, table: torch.Tensor) -> QKV:
    query, key = _rotated(qkv, [attn.norm_q.weight, attn.norm_k.weight], table, attn.norm_q.eps)
    return query, key, qkv[2]


def _every_query(mask: torch.Tensor) -> torch.Tensor:
    """Expand a mask of keys ``[B, S]`` to ``[B, 1, S, S]``.

    SDPA would do it too, after asking whether the sequence has length 1: a question without an answer where sizes are
    left free.
    """
    return mask[:, None, None].expand(-1, -1, mask.shape[1], -1)


def _plain(rotary: Any) -> Any:
    return rotary.plain if isinstance(rotary, Rotary) else rotary


def _heads(projected: tuple[torch.Tensor, ...], norm: Any) -> QKV:
    """Cut ``[B, S, heads * D]`` into heads as long as their norm's weight, however many this rank has."""
    dim: int = norm.weight.shape[0]
    query, key, value = (x.view(*x.shape[:-1], x.shape[-1] // dim, dim) for x in projected)
    return query, key, value


def _image(attn: Any, x: torch.Tensor) -> QKV:
    """Project ``[B, S, width]`` to query, key and value ``[B, S, heads, D]``, by one matrix or three."""
    if getattr(attn, "fused_projections", False) and hasattr(attn, "to_qkv"):
        return _heads(attn.to_qkv(x).chunk(3, dim=-1), attn.norm_q)
    return _heads((attn.to_q(x), attn.to_k(x), attn.to_v(x)), attn.norm_q)


def _text(attn: Any, x: torch.Tensor) -> QKV:
    """Project the second kind of tokens likewise."""
    if getattr(attn, "fused_projections", False) and hasattr(attn, "to_added_qkv"):
        return _heads(attn.to_added_qkv(x).chunk(3, dim=-1), attn.norm_added_q)
    return _heads((attn.add_q_proj(x), attn.add_k_proj(x), attn.add_v_proj(x)), attn.norm_added_q)


def _project(layers: Any, x: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        x = layer(x)
    return x


class TextFirst(Fused):
    """FLUX.1, Flux.2 and Ovis-Image: text before image, or one stream that holds both."""

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        """Attend over ``[B, S1, width]`` and, if given, ``[B, S0, width]`` before it."""
        # A layer with added norms has two streams; one without them has one.
        norms = TEXT_FIRST if attn.added_kv_proj_dim is not None else OWN
        matches = (encoder_hidden_states is None) is (norms is OWN)
        if not matches or not self._fuses(attn, norms, image_rotary_emb, hidden_states):
            plain = _plain(image_rotary_emb)
            return self.eager(attn, hidden_states, encoder_hidden_states, attention_mask, plain)
        table = image_rotary_emb.table
        if encoder_hidden_states is None:
            return self._attend(_one_stream(attn, _image(attn, hidden_states), table), attention_mask)
        streams = (_text(attn, encoder_hidden_states), _image(attn, hidden_states))
        out = self._attend(self._two_streams(attn, norms, streams, table), attention_mask)
        text, image = out.split_with_sizes([encoder_hidden_states.shape[1], hidden_states.shape[1]], dim=1)
        return _project(attn.to_out, image.contiguous()), attn.to_add_out(text.contiguous())


class ParallelSelf(Fused):
    """Flux.2's blocks of one stream: one matrix for the projections and the feed-forward."""

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        """Attend over ``[B, S, width]`` beside the feed-forward."""
        if not self._fuses(attn, OWN, image_rotary_emb, hidden_states):
            return self.eager(attn, hidden_states, attention_mask, _plain(image_rotary_emb))
        projected = attn.to_qkv_mlp_proj(hidden_states)
        # By their ratio, as a rank may hold a part of either.
        qkv_width, mlp_width = 3 * attn.inner_dim, attn.mlp_hidden_dim * attn.mlp_mult_factor
        own = projected.shape[-1] * qkv_width // (qkv_width + mlp_width)
        qkv, mlp = projected.split([own, projected.shape[-1] - own], dim=-1)
        streams = _heads(qkv.chunk(3, dim=-1), attn.norm_q)
        out = self._attend(_one_stream(attn, streams, image_rotary_emb.table), attention_mask)
        return attn.to_out(torch.cat((out, attn.mlp_act_fn(mlp)), dim=-1))


class MaskedTextFirst(Fused):
    """Qwen-Image: text, which may be padded, before image."""

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_hidden_states_mask: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        """Attend over ``[B, S1, width]`` with ``[B, S0, width]`` and its mask ``[B, S0]`` before it."""
        # What the eager processor raises for, it raises for here.
        refused = encoder_hidden_states is None or attention_mask is not None
        if refused or not self._fuses(attn, TEXT_FIRST, image_rotary_emb, hidden_states):
            return self.eager(
                attn,
                hidden_states,
                encoder_hidden_states,
                encoder_hidden_states_mask,
                attention_mask,
                _plain(image_rotary_emb),
            )
        assert encoder_hidden_states is not None  # noqa: S101 (refused, else)
        if encoder_hidden_states_mask is not None:
            image_mask = encoder_hidden_states_mask.new_ones(hidden_states.shape[:2], dtype=torch.bool)
            attention_mask = _every_query(torch.cat((encoder_hidden_states_mask, image_mask), dim=1))
        streams = (_text(attn, encoder_hidden_states), _image(attn, hidden_states))
        out = self._attend(self._two_streams(attn, TEXT_FIRST, streams, image_rotary_emb.table), attention_mask)
        text, image = out.split_with_sizes([encoder_hidden_states.shape[1], hidden_states.shape[1]], dim=1)
        return _project(attn.to_out, image.contiguous()), attn.to_add_out(text.contiguous())


class VideoFirst(Fused):
    """HunyuanVideo-1.5: video before text, which is masked as key and as query."""

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        """Attend over ``[B, S0, width]`` with ``[B, S1, width]`` and its mask ``[B, S1]`` behind it."""
        refused = encoder_hidden_states is None or attention_mask is None
        if refused or not self._fuses(attn, VIDEO_FIRST, image_rotary_emb, hidden_states):
            plain = _plain(image_rotary_emb)
            return self.eager(attn, hidden_states, encoder_hidden_states, attention_mask, plain)
        assert encoder_hidden_states is not None  # noqa: S101 (refused, else)
        assert attention_mask is not None  # noqa: S101 (refused, else)
        streams = (_image(attn, hidden_states), _text(attn, encoder_hidden_states))
        qkv = self._two_streams(attn, VIDEO_FIRST, streams, image_rotary_emb.table)
        tokens = functional.pad(attention_mask, (hidden_states.shape[1], 0), value=1).bool()
        out = self._attend(qkv, _every_query(tokens) & tokens[:, None, :, None])
        video, text = out.split_with_sizes([hidden_states.shape[1], encoder_hidden_states.shape[1]], dim=1)
        if getattr(attn, "to_out", None) is not None:
            video = _project(attn.to_out, video)
        if getattr(attn, "to_add_out", None) is not None:
            text = attn.to_add_out(text)
        return video, text


class SingleStream(Fused):
    """Z-Image: one stream, whose padding a mask may tell."""

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        freqs_cis: Any = None,
    ) -> Any:
        """Attend over ``[B, S, width]``."""
        if not self._fuses(attn, OWN, freqs_cis, hidden_states):
            return self.eager(attn, hidden_states, encoder_hidden_states, attention_mask, _plain(freqs_cis))
        if attention_mask is not None and attention_mask.ndim == PADDING_RANK:
            attention_mask = _every_query(attention_mask)
        out = self._attend(_one_stream(attn, _image(attn, hidden_states), freqs_cis.table), attention_mask)
        return _project(attn.to_out, out)
