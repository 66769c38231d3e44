"""The public ops and their registration with ``torch.library``.

The public functions validate, choose a path and call either the registered op (opaque to
``torch.compile``, so a graph holds one node for it) or the eager reference (which the compiler
traces and fuses as usual). Both paths return contiguous tensors and round in the same places.
"""

from __future__ import annotations

from typing import Final

import torch

from fused_ops import autograd, reference
from fused_ops import numerics as presets
from fused_ops.checks import check_joint, check_per_stream
from fused_ops.counting import JOINT, PER_STREAM
from fused_ops.gates import Call, decide, refuse_inexact
from fused_ops.launch import Formula, Stream, launch

_PER_STREAM_OP: Final = f"fused_ops::{PER_STREAM}"
_JOINT_OP: Final = f"fused_ops::{JOINT}"
_TAIL: Final = "Tensor table, float eps, int rotary_dim, bool interleaved, str numerics"

torch.library.define(
    _PER_STREAM_OP, f"(Tensor q, Tensor k, Tensor q_weight, Tensor k_weight, {_TAIL}) -> (Tensor, Tensor)"
)
torch.library.define(
    _JOINT_OP,
    "(Tensor q0, Tensor k0, Tensor v0, Tensor q1, Tensor k1, Tensor v1, Tensor q0_weight, Tensor k0_weight, "
    f"Tensor q1_weight, Tensor k1_weight, {_TAIL}) -> (Tensor, Tensor, Tensor)",
)


def _use_kernel(q: torch.Tensor, table: torch.Tensor, rotary_dim: int, *, interleaved: bool, numerics: str) -> bool:
    """Decide the path, refusing a preset that the call cannot have."""
    call = Call(q.device.type, q.dtype, table.dtype, q.shape[-1], rotary_dim)
    decision = decide(call)
    refuse_inexact(presets.preset(numerics), call, decision, interleaved=interleaved)
    return decision.fused


def _per_stream(
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    table: torch.Tensor,
    eps: float,
    rotary_dim: int,
    interleaved: bool,  # noqa: FBT001
    numerics: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    if not _use_kernel(q, table, rotary_dim, interleaved=interleaved, numerics=numerics):
        return reference.qk_norm_rope(q, k, q_weight, k_weight, table, eps, interleaved=interleaved)
    outputs = (q.new_empty(q.shape), k.new_empty(k.shape))
    stream = Stream(q.unsqueeze(0), k.unsqueeze(0), None, q_weight, k_weight)
    formula = Formula(eps, rotary_dim, interleaved, presets.preset(numerics))
    launch(PER_STREAM, stream, None, outputs, table, formula)
    return outputs


def _fake_per_stream(q: torch.Tensor, k: torch.Tensor, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    # new_empty with a shape, not empty_like: that would keep the strides of a permuted dense input.
    return q.new_empty(q.shape), k.new_empty(k.shape)


def _joint(
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
    rotary_dim: int,
    interleaved: bool,  # noqa: FBT001
    numerics: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if not _use_kernel(q0, table, rotary_dim, interleaved=interleaved, numerics=numerics):
        weights = (q0_weight, k0_weight, q1_weight, k1_weight)
        return reference.joint_qkv_norm_rope(q0, k0, v0, q1, k1, v1, *weights, table, eps, interleaved=interleaved)
    outputs = _fake_joint(q0, k0, v0, q1)
    first = Stream(q0, k0, v0, q0_weight, k0_weight)
    second = Stream(q1, k1, v1, q1_weight, k1_weight)
    formula = Formula(eps, rotary_dim, interleaved, presets.preset(numerics))
    launch(JOINT, first, second, outputs, table, formula)
    return outputs


def _fake_joint(
    q0: torch.Tensor, k0: torch.Tensor, v0: torch.Tensor, q1: torch.Tensor, *_: object
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch, first, q_heads, dim = q0.shape
    seq = first + q1.shape[1]
    kv_shape = (batch, seq, k0.shape[2], dim)
    return q0.new_empty((batch, seq, q_heads, dim)), k0.new_empty(kv_shape), v0.new_empty(kv_shape)


torch.library.impl(_PER_STREAM_OP, "CompositeExplicitAutograd", _per_stream)
torch.library.impl(_JOINT_OP, "CompositeExplicitAutograd", _joint)
torch.library.register_fake(_PER_STREAM_OP, _fake_per_stream)
torch.library.register_fake(_JOINT_OP, _fake_joint)
torch.library.register_autograd(_PER_STREAM_OP, autograd.per_stream_backward, setup_context=autograd.save_per_stream)
torch.library.register_autograd(_JOINT_OP, autograd.joint_backward, setup_context=autograd.save_joint)


def qk_norm_rope(
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    table: torch.Tensor,
    eps: float,
    *,
    head_dim: int | None = None,
    rotary_dim: int | None = None,
    interleaved: bool = True,
    numerics: str = "fast",
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMS-normalise and rotate the query and key of one stream.

    Values are normalised in float32, rounded to the dtype of ``q``, rotated in float32 and rounded
    once more (:attr:`fused_ops.Rounding.BETWEEN`). Formula and sources: :mod:`fused_ops.reference`.

    Args:
        q: ``[tokens, q_heads, D]``, bfloat16, float16 or float32, any strides.
        k: ``[tokens, kv_heads, D]``, as ``q``; its heads may differ in number.
        q_weight: ``[D]``, in the dtype of ``q`` or float32.
        k_weight: ``[D]``, in the dtype of ``q_weight``.
        table: ``[tokens, rotary_dim]``, ``[cos | sin]``, in the dtype of ``q`` or float32.
        eps: added to the mean square.
        head_dim: ``D``, checked if given.
        rotary_dim: how many of the first elements of a head are rotated, even; all if None.
        interleaved: pairs are neighbours; otherwise ``rotary_dim / 2`` apart.
        numerics: a preset of :mod:`fused_ops.numerics`, ``"fast"`` or ``"cuda_order"``.

    Returns:
        ``(q, k)``, new and contiguous. Differentiable in all but the table.

    Raises:
        ValueError: if shapes or devices do not fit, or the preset cannot be had.
        TypeError: if dtypes do not fit.
    """
    rotary = check_per_stream(q, k, q_weight, k_weight, table, head_dim, rotary_dim)
    if not _use_kernel(q, table, rotary, interleaved=interleaved, numerics=numerics):
        return reference.qk_norm_rope(q, k, q_weight, k_weight, table, eps, interleaved=interleaved)
    result: tuple[torch.Tensor, torch.Tensor] = torch.ops.fused_ops.qk_norm_rope(
        q, k, q_weight, k_weight, table, eps, rotary, interleaved, numerics
    )
    return result


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
    rotary_dim: int | None = None,
    interleaved: bool = True,
    numerics: str = "fast",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """RMS-normalise and rotate two streams, each with its own weights, and concatenate them.

    One launch reads both streams in place and writes the joint query, key and value. Bit for bit
    the concatenation of two :func:`qk_norm_rope` calls and of the values.

    Args:
        q0: ``[B, S0, q_heads, D]``, the stream that comes first; dtypes and strides as in
            :func:`qk_norm_rope`. ``S0`` may be 0.
        k0: ``[B, S0, kv_heads, D]``.
        v0: ``[B, S0, kv_heads, D]``, copied.
        q1: ``[B, S1, q_heads, D]``. ``S1`` may be 0.
        k1: ``[B, S1, kv_heads, D]``.
        v1: ``[B, S1, kv_heads, D]``, copied.
        q0_weight: ``[D]``; all four weights share a dtype.
        k0_weight: ``[D]``.
        q1_weight: ``[D]``.
        k1_weight: ``[D]``.
        table: ``[B * (S0 + S1), rotary_dim]``, a row for each joint position, batch by batch.
        eps: added to the mean square.
        rotary_dim: see :func:`qk_norm_rope`.
        interleaved: see :func:`qk_norm_rope`.
        numerics: see :func:`qk_norm_rope`.

    Returns:
        ``(Q, K, V)``, each ``[B, S0 + S1, heads, D]``, new and contiguous. Differentiable in all
        but the table.

    Raises:
        ValueError: if shapes or devices do not fit, or the preset cannot be had.
        TypeError: if dtypes do not fit.
    """
    streams = (q0, k0, v0, q1, k1, v1)
    weights = (q0_weight, k0_weight, q1_weight, k1_weight)
    rotary = check_joint(streams, weights, table, rotary_dim)
    if not _use_kernel(q0, table, rotary, interleaved=interleaved, numerics=numerics):
        return reference.joint_qkv_norm_rope(*streams, *weights, table, eps, interleaved=interleaved)
    result: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.ops.fused_ops.joint_qkv_norm_rope(
        *streams, *weights, table, eps, rotary, interleaved, numerics
    )
    return result
