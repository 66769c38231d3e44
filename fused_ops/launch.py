"""Start the kernel: tile, strides, grid. The only module that imports the Triton code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from fused_ops.counting import record_launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fused_ops.numerics import Numerics

#: Why Triton cannot be used, or None.
TRITON_MISSING: str | None = None
#: Whether the kernel runs in Triton's interpreter, on CPU tensors.
INTERPRETED = False
try:
    import triton  # type: ignore[import-untyped]  # it ships no types

    from fused_ops.kernels import norm_rope_kernel
except ImportError as error:  # Triton is optional: without it every call takes the eager chain.
    TRITON_MISSING = str(error)
else:
    INTERPRETED = not isinstance(norm_rope_kernel, triton.JITFunction)

MAX_GRID_X: Final = 2**31 - 1
MAX_GRID_Y: Final = 65_535
VECTOR_BYTES: Final = 16


@dataclass(frozen=True)
class Tile:
    """How the work is cut.

    Attributes:
        heads: heads of one token that a program takes, a power of two.
        warps: warps of a program.
    """

    heads: int
    warps: int


@dataclass(frozen=True)
class Stream:
    """Query, key and value of one stream, ``[B, S, heads, D]`` each; no value in the per-stream op."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor | None
    q_weight: torch.Tensor
    k_weight: torch.Tensor


@dataclass(frozen=True)
class Formula:
    """What is computed, apart from the tensors.

    Attributes:
        eps: added to the mean square.
        rotary_dim: elements of a head that are rotated.
        interleaved: pairs are neighbours; otherwise ``rotary_dim / 2`` apart.
        numerics: the preset.
    """

    eps: float
    rotary_dim: int
    interleaved: bool
    numerics: Numerics


def _power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def choose_tile(q_heads: int, kv_heads: int, head_dim: int, *, interleaved: bool) -> Tile:
    """Choose a tile, no larger than there are heads.

    Interleaved: one warp and 2 KiB of bfloat16, of the tiles measured on an H200 (docs/kernels.md)
    the fastest or within 2% of it for every shape: small programs waste little on heads that do
    not fill a tile. Half-split: four warps and 4 KiB, the fastest there; with fewer warps the
    compiler exchanges the coefficients through shared memory.
    """
    elements, warps = (1024, 1) if interleaved else (2048, 4)
    heads = max(1, elements // _power_of_two(head_dim))
    return Tile(heads=min(heads, _power_of_two(max(q_heads, kv_heads))), warps=warps)


def _stepped(x: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of ``x``, 0 where a dimension is never stepped along."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(x.shape, x.stride(), strict=True))


def _geometry(tensors: Sequence[torch.Tensor]) -> tuple[list[int], int, bool]:
    """Return the strides, the elements of one access, and whether heads are contiguous.

    Strides of all but the last dimension come in units of one access: 16 bytes where all of them
    allow it, else one element.
    """
    width = VECTOR_BYTES // tensors[0].element_size()
    strides: list[tuple[int, ...]] = [x.stride() for x in tensors]
    for stepped in (False, True):
        if stepped:  # only now, as it costs the host more than all the rest here
            strides = [_stepped(x) for x in tensors]
        if all(d == 1 and b % width == s % width == h % width == 0 for b, s, h, d in strides):
            return [n for b, s, h, d in strides for n in (b // width, s // width, h // width, d)], width, True
    return [n for steps in strides for n in steps], 1, all(d == 1 for *_, d in strides)


def _grid(positions: int, batch: int, groups: int) -> tuple[int, int]:
    if positions * groups > MAX_GRID_X or batch > MAX_GRID_Y:
        msg = f"{batch} x {positions} tokens in {groups} groups of heads exceed the grid of one launch"
        raise ValueError(msg)
    return positions * groups, batch


def launch(
    op: str,
    first: Stream,
    second: Stream | None,
    outputs: tuple[torch.Tensor, ...],
    table: torch.Tensor,
    formula: Formula,
    tile: Tile | None = None,
) -> None:
    """Compute one or two streams in one launch; an empty call launches nothing.

    Args:
        op: the name to count the launch under.
        first: the stream whose tokens come first.
        second: the stream whose tokens follow, with the same batch, heads, dtype and device.
        outputs: ``(Q, K)``, or ``(Q, K, V)`` if the streams have values; contiguous, room for
            ``B * (S0 + S1)`` tokens each.
        table: ``[B * (S0 + S1), rotary_dim]``.
        formula: eps, geometry of the rotation, numerics.
        tile: how to cut the work; the measured choice if None.

    Raises:
        ValueError: if the grid of one launch cannot hold the tokens.
    """
    if all(out.numel() == 0 for out in outputs):
        return
    other = first if second is None else second
    batch, seq0, q_heads, head_dim = first.q.shape
    seq1 = 0 if second is None else other.q.shape[1]
    kv_heads = first.k.shape[2]
    tile = tile or choose_tile(q_heads, kv_heads, head_dim, interleaved=formula.interleaved)
    groups = -(-q_heads // tile.heads) + -(-kv_heads // tile.heads) * (len(outputs) - 1)
    grid = _grid(seq0 + seq1, batch, groups)
    tensors = [first.q, first.k, first.k if first.v is None else first.v]
    if second is not None:
        tensors += [second.q, second.k, second.k if second.v is None else second.v]
    strides, width, unit = _geometry(tensors)
    if second is None:
        tensors, strides = tensors * 2, strides * 2
    table_s, table_d = table.stride()
    table_width = VECTOR_BYTES // table.element_size()
    if table_s % table_width:
        table_width = 1
    weights = [w.contiguous() for w in (first.q_weight, first.k_weight, other.q_weight, other.k_weight)]
    rotary = formula.rotary_dim
    with torch.cuda.device_of(first.q):  # type: ignore[no-untyped-call]  # torch's is
        norm_rope_kernel[grid](
            outputs[0], outputs[1], outputs[-1], *tensors, *weights, table, formula.eps,
            seq0, seq1, table_s // table_width, table_d, *strides,
            Q_HEADS=q_heads, KV_HEADS=kv_heads, COPY_V=len(outputs) == len("qkv"),
            D=head_dim, ROTARY=rotary, INTERLEAVED=formula.interleaved,
            TILE=tile.heads, WIDTH=_power_of_two(head_dim), HALF_WIDTH=_power_of_two(rotary // 2),
            REST_WIDTH=_power_of_two(max(head_dim - rotary, 1)),
            VEC=width, UNIT=unit, TABLE_VEC=table_width, TABLE_UNIT=table_d == 1,
            CUDA_ORDER=formula.numerics.cuda_order, SOFT=INTERPRETED,
            num_warps=tile.warps, num_stages=1, enable_fp_fusion=formula.numerics.fp_fusion,
        )  # fmt: skip
    record_launch(op)
