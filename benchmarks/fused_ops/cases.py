"""What is measured: shapes of real models, and the ways to compute them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from fused_ops import joint_qkv_norm_rope, qk_norm_rope, rope_table

if TYPE_CHECKING:
    from collections.abc import Callable

EPS = 1e-6


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        name: model and shape.
        batch: entries.
        first: tokens of the first stream in an entry.
        second: tokens of the second stream in an entry; 0 for the per-stream op.
        heads: heads of the query.
        kv_heads: heads of the key and the value.
        head_dim: elements of a head.
        rotary_dim: elements of a head that are rotated.
        interleaved: whether pairs are neighbours, else half the rotary dim apart.
    """

    name: str
    batch: int
    first: int
    second: int
    heads: int
    kv_heads: int
    head_dim: int = 128
    rotary_dim: int = 128
    interleaved: bool = True

    @property
    def bytes_moved(self) -> int:
        """Bytes that must be read once and written once; tables and weights not counted."""
        heads = self.heads + self.kv_heads * (2 if self.second else 1)
        return 2 * 2 * self.batch * (self.first + self.second) * heads * self.head_dim


CASES = (
    Case("joint FLUX.2 (1, 512+4096, 48x128)", 1, 512, 4096, 48, 48),
    Case("joint Qwen-Image, FLUX.1 (1, 512+4096, 24x128)", 1, 512, 4096, 24, 24),
    Case("joint HunyuanVideo-1.5 (1, 2048+256, 16x128)", 1, 2048, 256, 16, 16),
    Case("joint Qwen-Image (2, 512+4096, 24x128)", 2, 512, 4096, 24, 24),
    Case("per-stream FLUX.2 single block (4608, 48x128)", 1, 4608, 0, 48, 48),
    Case("per-stream Z-Image (4608, 30x128)", 1, 4608, 0, 30, 30),
    Case("per-stream MammothModa2 (4173, 21+7x120)", 1, 4173, 0, 21, 7, 120, 120),
    Case("per-stream half-split (4608, 14x128, 96 rotated)", 1, 4608, 0, 14, 14, 128, 96, interleaved=False),
)


@dataclass(frozen=True)
class Inputs:
    """Inputs of one call: views of packed projections, weights, coefficients in both layouts."""

    case: Case
    streams: tuple[torch.Tensor, ...]
    weights: tuple[torch.Tensor, ...]
    table: torch.Tensor
    cos: torch.Tensor
    sin: torch.Tensor


def make_inputs(case: Case, seed: int) -> Inputs:
    """Draw inputs: bfloat16 views of packed QKV projections, float32 coefficients."""
    generator = torch.Generator("cuda").manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device="cuda").bfloat16()

    widths = [heads * case.head_dim for heads in (case.heads, case.kv_heads, case.kv_heads)]
    streams: list[torch.Tensor] = []
    for tokens in (case.first, case.second):
        packed = draw(case.batch, tokens, sum(widths))
        streams += [part.unflatten(-1, (-1, case.head_dim)) for part in packed.split(widths, dim=-1)]
    weights = tuple(draw(case.head_dim) for _ in range(4))
    seq = case.first + case.second
    angles = torch.rand((seq, case.rotary_dim // 2), generator=generator, device="cuda") * 6.28
    cos, sin = angles.cos(), angles.sin()
    table = rope_table(cos, sin, batch=case.batch)
    wide = [x.repeat_interleave(2, dim=-1) if case.interleaved else x.repeat(1, 2) for x in (cos, sin)]
    return Inputs(case, tuple(streams), weights, table, *wide)


def _rotate(x: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """Rotate as diffusers' transformers do: float32 products, one rounding."""
    rotary = inputs.case.rotary_dim
    head, rest = x[..., :rotary], x[..., rotary:]
    if inputs.case.interleaved:
        real, imaginary = head.unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack((-imaginary, real), dim=-1).flatten(-2)
    else:
        real, imaginary = head.chunk(2, dim=-1)
        turned = torch.cat((-imaginary, real), dim=-1)
    cos, sin = inputs.cos[None, :, None], inputs.sin[None, :, None]
    rotated = (head.float() * cos + turned.float() * sin).to(x.dtype)
    return torch.cat((rotated, rest), dim=-1) if rest.shape[-1] else rotated


def eager_joint(x: Inputs) -> tuple[torch.Tensor, ...]:
    """Norm each stream, concatenate, rotate: the chain that the models run today."""
    q0, k0, v0, q1, k1, v1 = x.streams
    dim = (q0.shape[-1],)
    normed = [functional.rms_norm(t, dim, w, EPS) for t, w in zip((q0, k0, q1, k1), x.weights, strict=True)]
    q, k = torch.cat((normed[0], normed[2]), dim=1), torch.cat((normed[1], normed[3]), dim=1)
    return _rotate(q, x), _rotate(k, x), torch.cat((v0, v1), dim=1)


def fused_joint(x: Inputs, numerics: str = "fast") -> tuple[torch.Tensor, ...]:
    """One launch."""
    return joint_qkv_norm_rope(*x.streams, *x.weights, x.table, EPS, numerics=numerics)


def fused_streams_and_cat(x: Inputs) -> tuple[torch.Tensor, ...]:
    """One launch a stream, then three concatenations."""
    q0, k0, v0, q1, k1, v1 = x.streams
    batch, first = q0.shape[:2]
    rows = x.table.view(batch, -1, x.table.shape[-1])
    parts = []
    for q, k, weights, table in ((q0, k0, x.weights[:2], rows[:, :first]), (q1, k1, x.weights[2:], rows[:, first:])):
        flat_q, flat_k = qk_norm_rope(q.flatten(0, 1), k.flatten(0, 1), *weights, table.flatten(0, 1), EPS)
        parts.append((flat_q.view(q.shape), flat_k.view(k.shape)))
    (first_q, first_k), (second_q, second_k) = parts
    return torch.cat((first_q, second_q), dim=1), torch.cat((first_k, second_k), dim=1), torch.cat((v0, v1), dim=1)


def eager_stream(x: Inputs) -> tuple[torch.Tensor, ...]:
    """Norm and rotate one stream."""
    q, k = x.streams[:2]
    dim = (q.shape[-1],)
    normed = [functional.rms_norm(t, dim, w, EPS) for t, w in zip((q, k), x.weights[:2], strict=True)]
    return _rotate(normed[0], x), _rotate(normed[1], x)


def fused_stream(x: Inputs, numerics: str = "fast") -> tuple[torch.Tensor, ...]:
    """One launch for one stream."""
    q, k = x.streams[0].flatten(0, 1), x.streams[1].flatten(0, 1)
    options = {"rotary_dim": x.case.rotary_dim, "interleaved": x.case.interleaved}
    return qk_norm_rope(q, k, *x.weights[:2], x.table, EPS, numerics=numerics, **options)


def subjects(case: Case) -> dict[str, Callable[[Inputs], tuple[torch.Tensor, ...]]]:
    """Return the ways to compute ``case``, by name."""
    eager, fused = (eager_joint, fused_joint) if case.second else (eager_stream, fused_stream)
    ways: dict[str, Callable[[Inputs], tuple[torch.Tensor, ...]]] = {
        "fused": fused,
        "eager": eager,
        "compiled": torch.compile(eager, fullgraph=True, dynamic=False),
    }
    if case.head_dim == case.rotary_dim == 128:  # noqa: PLR2004 (what the preset is defined for)
        ways["fused_cuda_order"] = lambda x: fused(x, numerics="cuda_order")
    if case.second:
        ways["streams_and_cat"] = fused_streams_and_cat
    return ways
