"""Pack rotary tables: ``[cos | sin]``, one row a token, built once a forward.

Models carry their frequencies in different shapes: complex numbers (Qwen-Image, Z-Image), cosines
and sines once a pair, or each repeated (``c0 c0 c1 c1 ...`` in FLUX and Lumina, ``c0 c1 ... c0 c1 ...``
in GPT-NeoX style models). All become one layout here, so that the kernel has one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import torch

from fused_ops.gates import Call, Decision, Gate, decide


class Repeats(enum.Enum):
    """How often a cosine of a pair stands in a row of cosines, and where."""

    #: Once: ``R / 2`` cosines for ``R`` rotated elements.
    NONE = "none"
    #: Twice, side by side.
    PAIRS = "pairs"
    #: Twice, ``R / 2`` apart.
    HALVES = "halves"


@dataclass(frozen=True)
class Packed:
    """A table, or why there is none.

    Attributes:
        table: ``[B * S, R]``, or None where the model shall keep its eager chain.
        decision: the path that the table's calls take, and why.
    """

    table: torch.Tensor | None
    decision: Decision


def _half(x: torch.Tensor, repeats: Repeats) -> torch.Tensor:
    if repeats is Repeats.PAIRS:
        return x[..., 0::2]
    if repeats is Repeats.HALVES:
        return x[..., : x.shape[-1] // 2]
    return x


def rope_table(
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    repeats: Repeats = Repeats.NONE,
    batch: int = 1,
    dtype: torch.dtype = torch.float32,
    identity_rows: int = 0,
) -> torch.Tensor:
    """Pack cosines and sines.

    Args:
        cos: ``[S, R / 2]``, or ``[S, R]`` where each is repeated, or the same with a batch in front.
        sin: as ``cos``.
        repeats: how cosines are repeated. Only one of two equal values is read: that they *are*
            equal is the caller's promise, as checking it would make the host wait for the device.
        batch: how often to repeat an unbatched table; 1 for a batched one.
        dtype: dtype of the coefficients, float32 or the activation's.
        identity_rows: rows appended to each batch entry that rotate by nothing (cos 1, sin 0), for
            the tokens of a stream that is not rotated.

    Returns:
        ``[B * (S + identity_rows), R]``, contiguous.

    Raises:
        ValueError: if the shapes do not fit or a count is negative.
    """
    if cos.shape != sin.shape or cos.dim() not in {2, 3}:
        msg = f"cos and sin must both be [S, R / 2] or [B, S, R / 2], got {list(cos.shape)} and {list(sin.shape)}"
        raise ValueError(msg)
    if repeats is not Repeats.NONE and cos.shape[-1] % 2:
        msg = f"repeated cosines come in twos, got {cos.shape[-1]} a row"
        raise ValueError(msg)
    if identity_rows < 0 or batch < 1 or (cos.dim() == len("BSR") and batch != 1):
        msg = f"batch={batch}, identity_rows={identity_rows} do not fit cosines of shape {list(cos.shape)}"
        raise ValueError(msg)
    rows = torch.cat((_half(cos, repeats), _half(sin, repeats)), dim=-1).to(dtype)
    if rows.dim() == len("SR"):
        rows = rows.expand(batch, *rows.shape)
    if identity_rows:
        still = rows.new_zeros((rows.shape[0], identity_rows, rows.shape[-1]))
        still[..., : rows.shape[-1] // 2] = 1
        rows = torch.cat((rows, still), dim=1)
    return rows.reshape(-1, rows.shape[-1]).contiguous()


def rope_table_from_complex(
    frequencies: torch.Tensor, *, batch: int = 1, dtype: torch.dtype = torch.float32, identity_rows: int = 0
) -> torch.Tensor:
    """Pack complex frequencies ``cos + i sin`` of shape ``[S, R / 2]`` or ``[B, S, R / 2]``.

    See :func:`rope_table` for the other arguments and the result.

    Raises:
        ValueError: if the frequencies are not complex, or as :func:`rope_table`.
    """
    if not frequencies.is_complex():
        msg = f"frequencies must be complex, got {frequencies.dtype}"
        raise ValueError(msg)
    return rope_table(frequencies.real, frequencies.imag, batch=batch, dtype=dtype, identity_rows=identity_rows)


def pack_table(
    frequencies: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
    *,
    head_dim: int,
    activation_dtype: torch.dtype,
    min_tokens: int,
    streams: tuple[int, ...] | None = None,
    stream_min_tokens: int | None = None,
    sequence_parallel_size: int | None = None,
    repeats: Repeats = Repeats.NONE,
    batch: int = 1,
    dtype: torch.dtype = torch.float32,
    identity_rows: int = 0,
) -> Packed:
    """Pack a model's table if its calls shall be fused, else say why not.

    Args:
        frequencies: complex frequencies, or ``(cos, sin)``, as the two packers above take them.
        head_dim: elements of a head.
        activation_dtype: dtype of query and key.
        min_tokens: the model's default gate, over all streams and the batch, identity rows included.
        streams: rows of each stream in one batch entry, where the table serves a joint call; None
            for one stream. Their sum is the table's length.
        stream_min_tokens: the model's per-stream default, where it has one (see :class:`Gate`).
        sequence_parallel_size: ranks that share the sequence; pass None for a table of the local shard.
        repeats: see :func:`rope_table`.
        batch: see :func:`rope_table`.
        dtype: see :func:`rope_table`.
        identity_rows: see :func:`rope_table`.

    Raises:
        ValueError: as :func:`rope_table`; if ``streams`` do not add up to the table; or if
            ``FUSED_OPS_MIN_TOKENS`` is malformed.
    """
    cos, sin = (frequencies.real, frequencies.imag) if isinstance(frequencies, torch.Tensor) else frequencies
    rows = cos.shape[-2] + identity_rows
    parts = (rows,) if streams is None else streams
    if sum(parts) != rows:
        msg = f"streams {parts} do not add up to the table's {rows} rows"
        raise ValueError(msg)
    entries = cos.shape[0] if cos.dim() == len("BSR") else batch
    rotary_dim = cos.shape[-1] * (2 if repeats is Repeats.NONE else 1)
    decision = decide(
        Call(cos.device.type, activation_dtype, dtype, head_dim, rotary_dim),
        Gate(tuple(entries * part for part in parts), min_tokens, stream_min_tokens, sequence_parallel_size),
    )
    if not decision.fused:
        return Packed(None, decision)
    table = rope_table(cos, sin, repeats=repeats, batch=batch, dtype=dtype, identity_rows=identity_rows)
    return Packed(table, decision)
