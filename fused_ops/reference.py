"""Eager references: RMSNorm then rotary embedding, per stream and joint.

The formula, for one head ``x`` of ``D`` elements, weight ``w`` and a rotary part of ``R`` elements::

    inv = rsqrt(sum(x * x) / D + eps)
    n   = x * inv * w
    a'  = a * cos - b * sin        for each pair (a, b) of n[:R]
    b'  = b * cos + a * sin
    out = [rotated n[:R], n[R:]]

Pair ``i`` is ``(n[2i], n[2i + 1])`` when interleaved (GPT-J, FLUX, Qwen-Image, Lumina) and
``(n[i], n[i + R / 2])`` when half-split (GPT-NeoX). A row of the table is ``[cos | sin]``, ``R / 2``
of each, in the activation's dtype or in float32; it is widened to float32 before use, so a bfloat16
table means bfloat16 *coefficients*, not bfloat16 arithmetic.

Where values are rounded to the activation's dtype is a choice that models make differently, and
:class:`Rounding` names each. RMSNorm: Zhang and Sennrich, 2019, arXiv:1910.07467. RoPE: Su et al.,
2021, arXiv:2104.09864.
"""

from __future__ import annotations

import enum

import torch

LANES = 16
PER_LANE = 8


class Rounding(enum.Enum):
    """Where a reference rounds to the activation's dtype."""

    #: After the norm, and once after a float32 rotation: what the kernels do.
    BETWEEN = "between"
    #: Before the norm's weight and after it, and once after a float32 rotation: diffusers' own ``RMSNorm`` with a
    #: weight of the activation's dtype (Qwen-Image, HunyuanVideo-1.5, Z-Image, MammothModa2).
    AROUND_WEIGHT = "around_weight"
    #: Once, at the end: the normalised value enters the rotation in float32.
    ONCE = "once"
    #: After the norm, then the coefficients, each product and each sum of the rotation.
    EVERY_STEP = "every_step"


def sum_of_squares(x: torch.Tensor, *, cuda_order: bool = False) -> torch.Tensor:
    """Return ``sum(x * x)`` over the last dimension, kept, in float32.

    Args:
        x: ``[..., D]``, float32.
        cuda_order: sum as a CUDA row kernel of 16 lanes does (needs ``D == 128``): each lane
            accumulates 8 consecutive elements with fused multiply-adds, then lane ``i`` adds lane
            ``i + 1``, ``i + 2``, ``i + 4``, ``i + 8``. Otherwise torch's own order.

    Raises:
        ValueError: if ``cuda_order`` is asked for another ``D``.
    """
    if not cuda_order:
        return (x * x).sum(-1, keepdim=True)
    if x.shape[-1] != LANES * PER_LANE:
        msg = f"cuda_order sums rows of {LANES * PER_LANE} elements, got {x.shape[-1]}"
        raise ValueError(msg)
    # float64 stands in for the fused multiply-add. For values that came from bfloat16 it is exact:
    # a square has 16 significant bits and the accumulator 24, so the sum of two terms close enough
    # to interact in a float32 rounding fits in the 53 bits of a float64.
    lanes = x.double().reshape(*x.shape[:-1], LANES, PER_LANE)
    total = torch.zeros_like(lanes[..., 0], dtype=torch.float32)
    for i in range(PER_LANE):
        total = (lanes[..., i] * lanes[..., i] + total.double()).float()
    while total.shape[-1] > 1:
        total = total[..., 0::2] + total[..., 1::2]
    return total


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, *, cuda_order: bool = False) -> torch.Tensor:
    """Return ``x * rsqrt(sum(x * x) / D + eps) * weight`` in float32, not yet rounded.

    Args:
        x: ``[..., D]`` of any floating dtype.
        weight: ``[D]`` of any floating dtype.
        eps: added to the mean square.
        cuda_order: see :func:`sum_of_squares`.
    """
    wide = x.float()
    inverse = torch.rsqrt(sum_of_squares(wide, cuda_order=cuda_order) / x.shape[-1] + eps)
    return wide * inverse * weight.float()


def rotate(x: torch.Tensor, table: torch.Tensor, *, interleaved: bool) -> torch.Tensor:
    """Rotate the first ``R`` elements of each head of ``x``, in the dtype of ``x``.

    Args:
        x: ``[tokens, heads, D]``.
        table: ``[tokens, R]``, ``[cos | sin]``; cast to the dtype of ``x``.
        interleaved: pairs are neighbours; otherwise they are ``R / 2`` apart.
    """
    rotary_dim = table.shape[-1]
    half = rotary_dim // 2
    cos, sin = table.to(x.dtype).unsqueeze(-2).chunk(2, dim=-1)
    head = x[..., :rotary_dim]
    if interleaved:
        first, second = head[..., 0::2], head[..., 1::2]
    else:
        first, second = head[..., :half], head[..., half:]
    pair = (first * cos - second * sin, second * cos + first * sin)
    rotated = torch.stack(pair, dim=-1).flatten(-2) if interleaved else torch.cat(pair, dim=-1)
    return torch.cat((rotated, x[..., rotary_dim:]), dim=-1)


def norm_rope(
    x: torch.Tensor,
    weight: torch.Tensor,
    table: torch.Tensor,
    eps: float,
    *,
    interleaved: bool = True,
    rounding: Rounding = Rounding.BETWEEN,
    cuda_order: bool = False,
) -> torch.Tensor:
    """Normalise and rotate one tensor.

    Args:
        x: ``[tokens, heads, D]``, any strides.
        weight: ``[D]``.
        table: ``[tokens, R]``, ``[cos | sin]`` (see :mod:`fused_ops.tables`).
        eps: added to the mean square.
        interleaved: pairs are neighbours; otherwise they are ``R / 2`` apart.
        rounding: where to round to the dtype of ``x``.
        cuda_order: see :func:`sum_of_squares`.

    Returns:
        ``[tokens, heads, D]``, contiguous, in the dtype of ``x``.
    """
    if rounding is Rounding.AROUND_WEIGHT:
        unweighted = rms_norm(x, torch.ones_like(weight), eps, cuda_order=cuda_order).to(x.dtype)
        normed = (unweighted.float() * weight.float()).to(x.dtype).float()
    else:
        normed = rms_norm(x, weight, eps, cuda_order=cuda_order)
    if rounding is Rounding.EVERY_STEP:
        return rotate(normed.to(x.dtype), table, interleaved=interleaved).contiguous()
    if rounding is Rounding.BETWEEN:
        normed = normed.to(x.dtype).float()
    return rotate(normed, table, interleaved=interleaved).to(x.dtype).contiguous()


def qk_norm_rope(
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    table: torch.Tensor,
    eps: float,
    *,
    interleaved: bool = True,
    rounding: Rounding = Rounding.BETWEEN,
    cuda_order: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalise and rotate the query and key of one stream: :func:`norm_rope` of each.

    Args:
        q: ``[tokens, q_heads, D]``.
        k: ``[tokens, kv_heads, D]``.
        q_weight: ``[D]``.
        k_weight: ``[D]``.
        table: ``[tokens, R]``.
        eps: added to the mean square.
        interleaved: see :func:`norm_rope`.
        rounding: see :func:`norm_rope`.
        cuda_order: see :func:`sum_of_squares`.

    Returns:
        ``(q, k)``, contiguous.
    """
    return (
        norm_rope(q, q_weight, table, eps, interleaved=interleaved, rounding=rounding, cuda_order=cuda_order),
        norm_rope(k, k_weight, table, eps, interleaved=interleaved, rounding=rounding, cuda_order=cuda_order),
    )


def joint_qkv_norm_rope(
    q0: torch.Tensor,
    k0: torch.Tensor,
    v0: torch.Tensor,
    q1: torch.Tensor,
    k1: torch.Tensor,
    v1: torch.Tensor,
    q0_weight: torch.Tensor,
    k0_weight: torch.Tensor,
    q1_weight: torch.Tensor,
    k1_weight: torch.Tensor,
    table: torch.Tensor,
    eps: float,
    *,
    interleaved: bool = True,
    rounding: Rounding = Rounding.BETWEEN,
    cuda_order: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normalise and rotate two streams, each with its own weights, and concatenate them.

    Args:
        q0: ``[B, S0, q_heads, D]``, the stream that comes first.
        k0: ``[B, S0, kv_heads, D]``.
        v0: ``[B, S0, kv_heads, D]``; copied, neither normalised nor rotated.
        q1: ``[B, S1, q_heads, D]``.
        k1: ``[B, S1, kv_heads, D]``.
        v1: ``[B, S1, kv_heads, D]``.
        q0_weight: ``[D]``.
        k0_weight: ``[D]``.
        q1_weight: ``[D]``.
        k1_weight: ``[D]``.
        table: ``[B * (S0 + S1), R]``, a row for each joint position.
        eps: added to the mean square.
        interleaved: see :func:`norm_rope`.
        rounding: see :func:`norm_rope`.
        cuda_order: see :func:`sum_of_squares`.

    Returns:
        ``(Q, K, V)``, each ``[B, S0 + S1, heads, D]`` and contiguous.
    """
    batch, first = q0.shape[:2]
    rows = table.view(batch, first + q1.shape[1], table.shape[-1])

    def stream(x: torch.Tensor, weight: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        flat, flat_rows = x.flatten(0, 1), part.flatten(0, 1)
        out = norm_rope(flat, weight, flat_rows, eps, interleaved=interleaved, rounding=rounding, cuda_order=cuda_order)
        return out.view(x.shape)

    rows0, rows1 = rows[:, :first], rows[:, first:]
    return (
        torch.cat((stream(q0, q0_weight, rows0), stream(q1, q1_weight, rows1)), dim=1).contiguous(),
        torch.cat((stream(k0, k0_weight, rows0), stream(k1, k1_weight, rows1)), dim=1).contiguous(),
        torch.cat((v0, v1), dim=1).contiguous(),
    )
