"""Why a call takes the kernel or the eager chain: one function, :func:`decide`, says it.

Two questions are kept apart. *Can* the kernel run is a matter of device, dtypes and geometry
(:class:`Call`). *Should* it is a matter of how much work there is and how the model is sharded
(:class:`Gate`): short sequences do not pay for a launch, and a model whose sequence is sharded
keeps its own chain. Models ask both once a forward, when they pack their table; the public ops ask
only the first.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from fused_ops import launch
from fused_ops import numerics as presets

if TYPE_CHECKING:
    from fused_ops.numerics import Numerics

MIN_TOKENS_VARIABLE: Final = "FUSED_OPS_MIN_TOKENS"
DTYPES: Final = (torch.bfloat16, torch.float16, torch.float32)
MAX_HEAD_DIM: Final = 256


class Path(enum.Enum):
    """What computes a call."""

    KERNEL = "kernel"
    EAGER = "eager"


class Reason(enum.Enum):
    """Why a call takes its path; every reason but ``FUSED`` means the eager chain."""

    FUSED = "fused"
    NO_TRITON = "no_triton"
    DEVICE = "device"
    DTYPE = "dtype"
    GEOMETRY = "geometry"
    SEQUENCE_PARALLEL = "sequence_parallel"
    MIN_TOKENS = "min_tokens"
    SHORT_STREAM = "short_stream"


@dataclass(frozen=True)
class Decision:
    """A path and why it was taken.

    Attributes:
        path: kernel or eager.
        reason: the first obstacle met, or ``Reason.FUSED``.
        detail: one sentence with the numbers that decided.
    """

    path: Path
    reason: Reason
    detail: str

    @property
    def fused(self) -> bool:
        """Whether the kernel computes the call."""
        return self.path is Path.KERNEL


@dataclass(frozen=True)
class Call:
    """What a call looks like to the gates.

    Attributes:
        device: device type of the tensors, such as ``"cuda"``.
        dtype: dtype of query, key and value.
        table_dtype: dtype of the table.
        head_dim: elements of a head, ``D``.
        rotary_dim: elements of a head that are rotated, from the first.
    """

    device: str
    dtype: torch.dtype
    table_dtype: torch.dtype
    head_dim: int
    rotary_dim: int


@dataclass(frozen=True)
class Gate:
    """How much work a model's call has, and from where on the model wants it fused.

    Attributes:
        tokens: tokens of each stream over the whole batch (``B * S_i``), identity rows included.
        min_tokens: the model's default for all streams together; ``FUSED_OPS_MIN_TOKENS`` overrides it.
        stream_min_tokens: the default of the model's *per-stream* gate, where ``tokens`` describes
            a joint call. A joint call is refused if any of its streams is shorter: that stream
            would leave the path (and the coefficients' rounding) that its own gate keeps it on.
        sequence_parallel_size: ranks that share the sequence; more than one keeps the eager chain.
    """

    tokens: tuple[int, ...]
    min_tokens: int
    stream_min_tokens: int | None = None
    sequence_parallel_size: int | None = None


def min_tokens(default: int) -> int:
    """Return the smallest number of tokens that is fused.

    Reads ``FUSED_OPS_MIN_TOKENS`` at every call: unset or blank means ``default``, ``0`` means always.
    Inside a compiled region Dynamo reads it once, while tracing; pack tables outside.

    Raises:
        ValueError: if the variable is anything but a non-negative decimal integer.
    """
    text = os.environ.get(MIN_TOKENS_VARIABLE, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        msg = f"{MIN_TOKENS_VARIABLE} must be a non-negative integer, got {text!r}"
        raise ValueError(msg)
    return int(text)


def _eager(reason: Reason, detail: str) -> Decision:
    return Decision(Path.EAGER, reason, detail)


def _capability(call: Call) -> Decision | None:
    """Return why the kernel cannot run ``call``, or None if it can."""
    if launch.TRITON_MISSING is not None:
        return _eager(Reason.NO_TRITON, f"Triton cannot be imported: {launch.TRITON_MISSING}")
    if call.device != "cuda" and not (launch.INTERPRETED and call.device == "cpu"):
        return _eager(Reason.DEVICE, f"the kernel runs on CUDA tensors, not on {call.device}")
    if torch.version.hip is not None:
        return _eager(Reason.DEVICE, "the kernel is not built for ROCm")
    if call.dtype not in DTYPES or call.table_dtype not in {call.dtype, torch.float32}:
        return _eager(Reason.DTYPE, f"no kernel for {call.dtype} with a table of {call.table_dtype}")
    if not 2 <= call.rotary_dim <= call.head_dim <= MAX_HEAD_DIM or call.rotary_dim % 2:  # noqa: PLR2004 (one pair)
        return _eager(
            Reason.GEOMETRY,
            f"the kernel rotates an even part of heads of up to {MAX_HEAD_DIM} elements, "
            f"not {call.rotary_dim} of {call.head_dim}",
        )
    return None


def _work(gate: Gate) -> Decision | None:
    """Return why the model should not fuse a call, or None if it should."""
    ranks = gate.sequence_parallel_size
    if ranks is not None and ranks > 1:
        return _eager(Reason.SEQUENCE_PARALLEL, f"the sequence is shared by {ranks} ranks")
    total, needed = sum(gate.tokens), min_tokens(gate.min_tokens)
    if total < needed:
        return _eager(Reason.MIN_TOKENS, f"{total} tokens are fewer than {needed}")
    if gate.stream_min_tokens is None:
        return None
    needed = min_tokens(gate.stream_min_tokens)
    for tokens in gate.tokens:
        if 0 < tokens < needed:
            return _eager(
                Reason.SHORT_STREAM, f"a stream of {tokens} tokens is kept eager by the per-stream gate of {needed}"
            )
    return None


def decide(call: Call, gate: Gate | None = None) -> Decision:
    """Say which path a call takes, and why.

    Args:
        call: device, dtypes and geometry.
        gate: the model's gate; without one only the capability is asked.

    Raises:
        ValueError: if ``FUSED_OPS_MIN_TOKENS`` is malformed and a gate was given.
    """
    obstacle = _capability(call)
    if obstacle is None and gate is not None:
        obstacle = _work(gate)
    return obstacle or Decision(Path.KERNEL, Reason.FUSED, "the kernel runs this call")


def refuse_inexact(numerics: Numerics, call: Call, decision: Decision, *, interleaved: bool) -> None:
    """Refuse an order-exact preset that the call cannot have.

    Raises:
        ValueError: if ``numerics`` asks for the CUDA order and the call is not one of the kernel's
            with bfloat16 activations and interleaved, fully rotated heads of 128 elements.
    """
    if not numerics.cuda_order:
        return
    if not decision.fused:
        msg = f"numerics={numerics.name!r} needs the kernel, but {decision.detail}"
        raise ValueError(msg)
    dim = presets.CUDA_ORDER_HEAD_DIM
    if call.dtype != torch.bfloat16 or call.head_dim != dim or call.rotary_dim != dim or not interleaved:
        msg = (
            f"numerics={numerics.name!r} is defined for bfloat16 heads of {dim} elements, all rotated, interleaved; "
            f"got {call.dtype}, head_dim={call.head_dim}, rotary_dim={call.rotary_dim}, interleaved={interleaved}"
        )
        raise ValueError(msg)
