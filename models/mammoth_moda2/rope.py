"""Rotary embedding over (position, row, column), real and interleaved.

Every token has three coordinates, each with its share of a head's pairs. Text token ``l`` stands at
``(l, l, l)``. What follows a text of ``n`` tokens begins at position ``n``: every token of an image
has the image's position, its own row and its own column (in patches), and the next image's position
is larger by the longer side of this one. RoPE: Su et al., 2021, arXiv:2104.09864.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from diffusers.models.embeddings import get_1d_rotary_pos_embed
from torch.nn import functional

import fused_ops

AxisTables = Sequence[tuple[torch.Tensor, torch.Tensor]]
_AXES: Final = 3
MIN_TOKENS: Final = 0
"""The model's own gate: every call is fused that can be."""


@dataclass(frozen=True)
class Rotary:
    """Rotations of a sequence's tokens.

    Attributes:
        cos: ``[B, S, D]`` float32, each pair's cosine twice, side by side; zero where a token is padding.
        sin: likewise.
        table: ``[B * S, D]``, the same for the fused kernel, or None where the eager chain shall run.
    """

    cos: torch.Tensor
    sin: torch.Tensor
    table: torch.Tensor | None = None


@dataclass(frozen=True)
class Grid:
    """An image in patches."""

    height: int
    width: int

    @property
    def tokens(self) -> int:
        """Patches."""
        return self.height * self.width


def axis_tables(
    axes_dim: Sequence[int], axes_lens: Sequence[int], *, theta: float = 10000.0, device: torch.device | str = "cpu"
) -> AxisTables:
    """Compute ``(cos, sin)`` of every axis, each ``[length, dim]`` float32 from float64 angles.

    Once a pipeline: a forward looks up in them.
    """
    return [
        get_1d_rotary_pos_embed(
            dim,
            torch.arange(length, device=device),  # type: ignore[arg-type]  # it takes tensors, too
            theta=theta,
            use_real=True,
            repeat_interleave_real=True,
            freqs_dtype=torch.float64,
        )
        for dim, length in zip(axes_dim, axes_lens, strict=True)
    ]


def text_positions(tokens: int, device: torch.device) -> torch.Tensor:
    """Return ``[tokens, 3]`` int64 coordinates of text."""
    return torch.arange(tokens, device=device)[:, None].expand(tokens, _AXES)


def image_positions(grid: Grid, at: int, device: torch.device) -> torch.Tensor:
    """Return ``[tokens, 3]`` int64 coordinates of an image at position ``at``, row by row."""
    positions = torch.empty(grid.height, grid.width, _AXES, dtype=torch.int64, device=device)
    positions[..., 0] = at
    positions[..., 1] = torch.arange(grid.height, device=device)[:, None]
    positions[..., 2] = torch.arange(grid.width, device=device)
    return positions.flatten(0, 1)


def look_up(tables: AxisTables, positions: Sequence[torch.Tensor], padded: int) -> Rotary:
    """Gather the rotations of every sample's tokens.

    Args:
        tables: as :func:`axis_tables` gives them.
        positions: one ``[S_i, 3]`` a sample.
        padded: rows of the result a sample; those past a sample's own are zero.

    Returns:
        Rotations ``[B, padded, D]``, new tensors and no views of others: a view and a tensor of its
        own are two graphs to Dynamo.
    """
    ids = torch.stack([functional.pad(p, (0, 0, 0, padded - p.shape[0])) for p in positions])
    cos = torch.cat([axis_cos[ids[..., axis]] for axis, (axis_cos, _) in enumerate(tables)], dim=-1)
    sin = torch.cat([axis_sin[ids[..., axis]] for axis, (_, axis_sin) in enumerate(tables)], dim=-1)
    for sample, own in enumerate(positions):
        if own.shape[0] < padded:
            cos[sample, own.shape[0] :] = 0
            sin[sample, own.shape[0] :] = 0
    return Rotary(cos, sin)


def with_table(rotary: Rotary, *, activation_dtype: torch.dtype) -> Rotary:
    """Add the fused kernel's table, if its calls shall be fused.

    Reads ``FUSED_OPS_MIN_TOKENS``, so it is called once a forward and outside every compiled region.

    Args:
        rotary: without a table.
        activation_dtype: of query and key.
    """
    packed = fused_ops.pack_table(
        (rotary.cos, rotary.sin),
        head_dim=rotary.cos.shape[-1],
        activation_dtype=activation_dtype,
        min_tokens=MIN_TOKENS,
        repeats=fused_ops.Repeats.PAIRS,
    )
    return Rotary(rotary.cos, rotary.sin, packed.table)


def rotate(x: torch.Tensor, rotary: Rotary) -> torch.Tensor:
    """Rotate neighbouring pairs of each head.

    Args:
        x: ``[B, S, heads, D]``.
        rotary: ``[B or 1, S, D]``; its even and odd lanes need not be equal.

    Returns:
        ``[B, S, heads, D]`` in the wider dtype of ``x`` and the rotations: float32 in practice.
    """
    cos, sin = rotary.cos.unsqueeze(-2), rotary.sin.unsqueeze(-2)
    first, second = x[..., 0::2], x[..., 1::2]
    pair = (
        first * cos[..., 0::2] - second * sin[..., 0::2],
        first * sin[..., 1::2] + second * cos[..., 1::2],
    )
    return torch.stack(pair, dim=-1).flatten(-2)
