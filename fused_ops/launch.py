"""Start the kernel: tile, strides, grid. The only module that imports the Triton code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from fused_ops.counting import record_launch

if TYPE_CHECKING:
    from fused_ops.numerics import Numerics

try:
    import triton

    from fused_ops.kernels import norm_rope_kernel
except ImportError as error:  # Triton is optional: without it every call takes the eager chain.
    TRITON_MISSING: Final[str | None] = str(error)
    INTERPRETED: Final = False
else:
    TRITON_MISSING = None
    INTERPRETED = not isinstance(norm_rope_kernel, triton.JITFunction)

MAX_GRID_X: Final = 2**31 - 1
MAX_GRID_Y: Final = 65_535
VECTOR_BYTES: Final = 16
TILE_ELEMENTS: Final = 2048


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


def choose_tile(q_heads: int, kv_heads: int, head_dim: int) -> Tile:
    """Choose a tile: about 4 or 8 KiB of bfloat16 a program, whichever leaves fewer heads empty.

    Measured on an H200 (docs/kernels.md): smaller tiles spend their time on addresses, larger ones
    leave too few programs to even out.
    """
    few = max(1, TILE_ELEMENTS // _power_of_two(head_dim))
    largest = _power_of_two(max(q_heads, kv_heads))

    def empty(tile: int) -> int:
        return -q_heads % tile + -kv_heads % tile

    heads = min((few, 2 * few), key=empty)
    return Tile(heads=min(heads, largest), warps=4)


def _strides(x: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of ``x``, 0 where a dimension is never stepped along."""
    return tuple(stride if size > 1 else 0 for size, stride in zip(x.shape, x.stride(), strict=True))


def _geometry(tensors: list[torch.Tensor]) -> tuple[list[int], dict[str, Any]]:
    """Return all strides in units of one access, and that unit, for tensors of one dtype."""
    strides = [_strides(x) for x in tensors]
    unit = all(s[-1] == 1 or x.shape[-1] <= 1 for s, x in zip(strides, tensors, strict=True))
    width = VECTOR_BYTES // tensors[0].element_size()
    if not unit or any(s % width for steps in strides for s in steps[:-1]):
        width = 1
    return [n for *outer, last in strides for n in (*(s // width for s in outer), last)], {"VEC": width, "UNIT": unit}


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
    tile = tile or choose_tile(q_heads, kv_heads, head_dim)
    groups = -(-q_heads // tile.heads) + -(-kv_heads // tile.heads) * (len(outputs) - 1)
    grid = _grid(seq0 + seq1, batch, groups)
    tensors = [first.q, first.k, first.k if first.v is None else first.v]
    tensors += [other.q, other.k, other.k if other.v is None else other.v]
    strides, access = _geometry(tensors)
    table_s, table_d = _strides(table)
    table_width = VECTOR_BYTES // table.element_size()
    if table_s % table_width:
        table_width = 1
    weights = [w.contiguous() for w in (first.q_weight, first.k_weight, other.q_weight, other.k_weight)]
    rotary = formula.rotary_dim
    with torch.cuda.device_of(first.q):
        norm_rope_kernel[grid](
            outputs[0], outputs[1], outputs[-1], *tensors, *weights, table, formula.eps,
            seq0, seq1, table_s // table_width, table_d, *strides,
            Q_HEADS=q_heads, KV_HEADS=kv_heads, COPY_V=len(outputs) == len("qkv"),
            D=head_dim, ROTARY=rotary, INTERLEAVED=formula.interleaved,
            TILE=tile.heads, WIDTH=_power_of_two(head_dim), HALF_WIDTH=_power_of_two(rotary // 2),
            REST_WIDTH=_power_of_two(max(head_dim - rotary, 1)),
            **access, TABLE_VEC=table_width, TABLE_UNIT=table_d == 1,
            CUDA_ORDER=formula.numerics.cuda_order, SOFT=INTERPRETED,
            num_warps=tile.warps, num_stages=1, enable_fp_fusion=formula.numerics.fp_fusion,
        )  # fmt: skip
    record_launch(op)
