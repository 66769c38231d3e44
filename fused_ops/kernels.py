"""The Triton kernel: RMSNorm, rotary embedding and concatenation in one pass over memory.

One kernel serves both ops. A program owns one token and a group of its heads: it loads the group
once with 16-byte accesses, normalises and rotates it in registers, and stores it where it belongs
in the joint output. Neighbouring programs own neighbouring groups of the same token, so memory is
walked in order. The per-stream op is the joint one with an empty second stream and no values.

The pair element never comes from memory a second time: interleaved pairs are split and joined in a
thread's registers, half-split rows are loaded as their two halves.

Offsets are 64-bit wherever a stride enters. Strides come in units of ``VEC`` elements, so that the
compiler can prove the alignment of a row (it specialises arguments only on divisibility by 16,
which the row of a 120-element head is not). Runs under ``TRITON_INTERPRET=1`` on CPU tensors.

Names: lower-case arguments are pointers and run-time numbers, upper-case ones are compile-time.
"""
# A jitted function is compiled from its source: its arguments are Triton values, which have no
# Python types to declare, except those that Triton itself reads (tl.constexpr).
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

from typing import Final

import triton  # type: ignore[import-untyped]  # it ships no types
import triton.language as tl  # type: ignore[import-untyped]

#: What ``tl.sum`` reduces with. ``tl.sum`` itself is a jitted function, which an interpreted kernel
#: cannot call if Triton was imported before TRITON_INTERPRET was set (importing Dynamo does that).
_SUM: Final = tl.standard._sum_combine  # noqa: SLF001

#: Sizes and strides that change from call to call: a kernel must not be rebuilt for each.
_RUNTIME: Final = (
    *("seq0", "seq1", "table_s", "table_d"),
    *(f"{tensor}{stream}_{axis}" for tensor in "qkv" for stream in "01" for axis in "bshd"),
)


@triton.jit
def _narrow(x, dtype: tl.constexpr, SOFT: tl.constexpr):
    """Round float32 to ``dtype``, to nearest even; ``SOFT``: in integers, as the interpreter truncates."""
    if SOFT and dtype == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        bits = bits + 0x7FFF + ((bits >> 16) & 1)
        rounded = (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        rounded = x.to(dtype)
    return rounded


@triton.jit
def _fold(x, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Add neighbours: ``[ROWS, WIDTH]`` to ``[ROWS, WIDTH // 2]``."""
    return tl.reduce(tl.reshape(x, (ROWS, WIDTH // 2, 2)), 2, _SUM)


@triton.jit
def _cuda_order_sum(x, ROWS: tl.constexpr):
    """Sum the squares of ``[ROWS, 128]`` in the order of a CUDA row kernel of 16 lanes."""
    even, odd = tl.split(tl.reshape(x, (ROWS, 16, 4, 2)))
    x04, x26 = tl.split(tl.reshape(even, (ROWS, 16, 2, 2)))
    x15, x37 = tl.split(tl.reshape(odd, (ROWS, 16, 2, 2)))
    x0, x4 = tl.split(x04)
    x1, x5 = tl.split(x15)
    x2, x6 = tl.split(x26)
    x3, x7 = tl.split(x37)
    total = tl.fma(x1, x1, x0 * x0)
    total = tl.fma(x2, x2, total)
    total = tl.fma(x3, x3, total)
    total = tl.fma(x4, x4, total)
    total = tl.fma(x5, x5, total)
    total = tl.fma(x6, x6, total)
    total = tl.fma(x7, x7, total)
    total = _fold(total, ROWS, 16)
    total = _fold(total, ROWS, 8)
    total = _fold(total, ROWS, 4)
    return tl.reduce(total, 1, _SUM)


@triton.jit
def _inverse_rms(total, eps, D: tl.constexpr):
    """``rsqrt(total / D + eps)`` with an IEEE division."""
    return tl.rsqrt(tl.div_rn(total, tl.cast(D, tl.float32)) + eps)


@triton.jit
def _load(base, dims, step, mask):
    """Load a tile of heads."""
    return tl.load(base + (dims * step)[None, :], mask=mask, other=0.0)


@triton.jit
def _vector(base, dims, mask, other: tl.constexpr):
    """Load a row that many programs share, as ``[1, n]`` float32."""
    return tl.load(base + dims, mask=mask, other=other).to(tl.float32)[None, :]


@triton.jit
def _interleaved_tile(
    src, step, here, weight_ptr, cos_ptr, table_d, dst, eps,
    D: tl.constexpr, ROTARY: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
    CUDA_ORDER: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """Normalise and rotate ``TILE`` heads of one token whose pairs are neighbours."""
    dtype: tl.constexpr = dst.dtype.element_ty
    dims = tl.arange(0, WIDTH)
    mask = here & (dims < D)[None, :]
    x = _load(src, dims, step, mask).to(tl.float32)
    pairs = tl.arange(0, WIDTH // 2)
    turned = pairs < ROTARY // 2
    cos = _vector(cos_ptr, pairs * table_d, turned, 1.0)
    sin = _vector(cos_ptr + (ROTARY // 2) * table_d, pairs * table_d, turned, 0.0)
    # Half as many elements as the tile is wide: few enough for each thread to load what it needs,
    # where one load of all weights would be exchanged through shared memory, behind a barrier.
    first_weight = _vector(weight_ptr, 2 * pairs, 2 * pairs < D, 0.0)
    second_weight = _vector(weight_ptr + 1, 2 * pairs, 2 * pairs + 1 < D, 0.0)

    if CUDA_ORDER:
        total = _cuda_order_sum(x, TILE)
    else:
        total = tl.reduce(x * x, 1, _SUM)
    unit = x * _inverse_rms(total, eps, D)[:, None]
    first, second = tl.split(tl.reshape(unit, (TILE, WIDTH // 2, 2)))
    first = _narrow(first * first_weight, dtype, SOFT).to(tl.float32)
    second = _narrow(second * second_weight, dtype, SOFT).to(tl.float32)
    left = first * cos - second * sin
    right = second * cos + first * sin
    if ROTARY < D:
        # Turning by zero would do, but for the sign of a zero and for infinities.
        left = tl.where(turned[None, :], left, first)
        right = tl.where(turned[None, :], right, second)
    out = _narrow(tl.reshape(tl.join(left, right), (TILE, WIDTH)), dtype, SOFT)
    tl.store(dst + dims[None, :], out, mask=mask)


@triton.jit
def _halves_tile(
    src, step, here, weight_ptr, cos_ptr, table_d, dst, eps,
    D: tl.constexpr, ROTARY: tl.constexpr, HALF_WIDTH: tl.constexpr, REST_WIDTH: tl.constexpr,
    SOFT: tl.constexpr,
):  # fmt: skip
    """Normalise and rotate heads of one token whose pairs are ``ROTARY / 2`` apart."""
    dtype: tl.constexpr = dst.dtype.element_ty
    half: tl.constexpr = ROTARY // 2
    dims = tl.arange(0, HALF_WIDTH)
    inside = dims < half
    mask = here & inside[None, :]
    x1 = _load(src, dims, step, mask).to(tl.float32)
    x2 = _load(src, dims + half, step, mask).to(tl.float32)
    weight1 = _vector(weight_ptr, dims, inside, 0.0)
    weight2 = _vector(weight_ptr + half, dims, inside, 0.0)
    cos = _vector(cos_ptr, dims * table_d, inside, 1.0)
    sin = _vector(cos_ptr + half * table_d, dims * table_d, inside, 0.0)
    total = tl.reduce(x1 * x1 + x2 * x2, 1, _SUM)
    if ROTARY < D:
        rest = ROTARY + tl.arange(0, REST_WIDTH)
        rest_mask = here & (rest < D)[None, :]
        x3 = _load(src, rest, step, rest_mask).to(tl.float32)
        total += tl.reduce(x3 * x3, 1, _SUM)
        inverse = _inverse_rms(total, eps, D)[:, None]
        passed = x3 * inverse * _vector(weight_ptr, rest, rest < D, 0.0)
        tl.store(dst + rest[None, :], _narrow(passed, dtype, SOFT), mask=rest_mask)
    else:
        inverse = _inverse_rms(total, eps, D)[:, None]
    first = _narrow(x1 * inverse * weight1, dtype, SOFT).to(tl.float32)
    second = _narrow(x2 * inverse * weight2, dtype, SOFT).to(tl.float32)
    tl.store(dst + dims[None, :], _narrow(first * cos - second * sin, dtype, SOFT), mask=mask)
    tl.store(dst + half + dims[None, :], _narrow(second * cos + first * sin, dtype, SOFT), mask=mask)


@triton.jit
def _norm_rope_group(
    x0, x1, w0, w1, cos_ptr, table_d, out, eps, second, batch, row, out_row, group,
    b0, s0, h0, d0, b1, s1, h1, d1,
    HEADS: tl.constexpr, D: tl.constexpr, ROTARY: tl.constexpr, INTERLEAVED: tl.constexpr,
    TILE: tl.constexpr, WIDTH: tl.constexpr, HALF_WIDTH: tl.constexpr, REST_WIDTH: tl.constexpr,
    VEC: tl.constexpr, UNIT: tl.constexpr, CUDA_ORDER: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """Normalise and rotate one group of heads of a query or a key."""
    src, step, here, dst = _group(
        x0, x1, out, second, batch, row, out_row, group, b0, s0, h0, d0, b1, s1, h1, d1, HEADS, D, TILE, VEC, UNIT
    )
    weight = tl.where(second, w1, w0)
    if INTERLEAVED:
        _interleaved_tile(src, step, here, weight, cos_ptr, table_d, dst, eps, D, ROTARY, TILE, WIDTH, CUDA_ORDER, SOFT)
    else:
        _halves_tile(src, step, here, weight, cos_ptr, table_d, dst, eps, D, ROTARY, HALF_WIDTH, REST_WIDTH, SOFT)


@triton.jit
def _group(
    x0, x1, out, second, batch, row, out_row, group, b0, s0, h0, d0, b1, s1, h1, d1,
    HEADS: tl.constexpr, D: tl.constexpr, TILE: tl.constexpr, VEC: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Where a group of heads lies: source rows, step of an element, mask of heads, destination rows."""
    heads = group * TILE + tl.arange(0, TILE)
    token = batch * tl.where(second, b1, b0) + row * tl.where(second, s1, s0)
    src = tl.where(second, x1, x0) + token * VEC
    rows = heads.to(tl.int64) * (tl.where(second, h1, h0).to(tl.int64) * VEC)
    if UNIT:
        step = 1
    else:
        step = tl.where(second, d1, d0).to(tl.int64)
    dst = out + out_row * (HEADS * D) + heads * D
    return src + rows[:, None], step, (heads < HEADS)[:, None], dst[:, None]


@triton.jit(do_not_specialize=_RUNTIME)
def norm_rope_kernel(
    q_out, k_out, v_out, q0, k0, v0, q1, k1, v1, q0_weight, k0_weight, q1_weight, k1_weight, table, eps,
    seq0, seq1, table_s, table_d,
    q0_b, q0_s, q0_h, q0_d, k0_b, k0_s, k0_h, k0_d, v0_b, v0_s, v0_h, v0_d,
    q1_b, q1_s, q1_h, q1_d, k1_b, k1_s, k1_h, k1_d, v1_b, v1_s, v1_h, v1_d,
    Q_HEADS: tl.constexpr, KV_HEADS: tl.constexpr, COPY_V: tl.constexpr,
    D: tl.constexpr, ROTARY: tl.constexpr, INTERLEAVED: tl.constexpr,
    TILE: tl.constexpr, WIDTH: tl.constexpr, HALF_WIDTH: tl.constexpr, REST_WIDTH: tl.constexpr,
    VEC: tl.constexpr, TABLE_VEC: tl.constexpr, UNIT: tl.constexpr, TABLE_UNIT: tl.constexpr,
    CUDA_ORDER: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """One token and one group of heads: a group of the query, else of the key, else of the value.

    Grid: (joint positions * groups, batch). ``seq0`` and ``seq1`` are the streams' lengths; strides
    ``_b _s _h`` are in units of ``VEC`` elements, ``_d`` in elements.
    """
    q_groups: tl.constexpr = (Q_HEADS + TILE - 1) // TILE
    kv_groups: tl.constexpr = (KV_HEADS + TILE - 1) // TILE
    groups: tl.constexpr = q_groups + kv_groups * (2 if COPY_V else 1)
    position = tl.program_id(0) // groups
    group = tl.program_id(0) % groups
    batch = tl.program_id(1).to(tl.int64)
    second = position >= seq0
    row = tl.where(second, position - seq0, position).to(tl.int64)
    out_row = batch * (seq0 + seq1) + position
    cos_ptr = table + out_row * table_s * TABLE_VEC
    if TABLE_UNIT:
        table_d = 1
    else:
        table_d = table_d.to(tl.int64)
    if group < q_groups:
        _norm_rope_group(
            q0, q1, q0_weight, q1_weight, cos_ptr, table_d, q_out, eps, second, batch, row, out_row, group,
            q0_b, q0_s, q0_h, q0_d, q1_b, q1_s, q1_h, q1_d, Q_HEADS, D, ROTARY, INTERLEAVED,
            TILE, WIDTH, HALF_WIDTH, REST_WIDTH, VEC, UNIT, CUDA_ORDER, SOFT,
        )  # fmt: skip
    elif group < q_groups + kv_groups:
        _norm_rope_group(
            k0, k1, k0_weight, k1_weight, cos_ptr, table_d, k_out, eps, second, batch, row, out_row, group - q_groups,
            k0_b, k0_s, k0_h, k0_d, k1_b, k1_s, k1_h, k1_d, KV_HEADS, D, ROTARY, INTERLEAVED,
            TILE, WIDTH, HALF_WIDTH, REST_WIDTH, VEC, UNIT, CUDA_ORDER, SOFT,
        )  # fmt: skip
    else:
        src, step, here, dst = _group(
            v0, v1, v_out, second, batch, row, out_row, group - q_groups - kv_groups,
            v0_b, v0_s, v0_h, v0_d, v1_b, v1_s, v1_h, v1_d, KV_HEADS, D, TILE, VEC, UNIT,
        )  # fmt: skip
        dims = tl.arange(0, WIDTH)
        mask = here & (dims < D)[None, :]
        tl.store(dst + dims[None, :], _load(src, dims, step, mask), mask=mask)
