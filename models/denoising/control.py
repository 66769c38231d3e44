"""The control arm: the eager model with one rounding moved, to tell a kernel's error from amplification.

A compiled model differs from the eager one, and after fifty steps of guidance it may differ a lot. That alone says
nothing against a kernel: the model may amplify any rounding. So the eager model is also compared with itself, with
nothing changed but the order in which its RMSNorms add up. If that moves the image as far, the distance is the model's
and not the kernel's.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import torch
from diffusers.models.normalization import RMSNorm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

LANES: Final = 8
_HALVES: Final = (torch.float16, torch.bfloat16)
_ABSENT: Final = object()


@contextlib.contextmanager
def norm_reduction_in_lanes(model: nn.Module) -> Iterator[int]:
    """Change the reduction order of every diffusers RMSNorm in ``model`` while the block runs.

    The squares of a row of ``n`` are added in groups of 8 neighbours, then the ``n / 8`` sums. Nothing else changes,
    roundings included. The modules' own ``forward`` is replaced and put back, whatever happens inside.

    It reaches what calls the modules: where the fused kernel computes a head's norm and rotation (on CUDA, unless the
    model was built with ``fused_qk_norm_rope=False``), ``norm_q`` and ``norm_k`` are bypassed and keep the kernel's
    order; then only the norms of the blocks and of the text move. It is meant for the eager model: a model that was
    compiled before the block would be compiled again inside it.

    Args:
        model: holds RMSNorms, each of a width that is a multiple of 8.

    Yields:
        How many norms were changed.

    Raises:
        ValueError: there is no RMSNorm, or one has another width; nothing has changed then.
    """
    norms = _reorderable(model)
    before = [(norm, vars(norm).get("forward", _ABSENT)) for norm in norms]
    try:
        for norm in norms:
            vars(norm)["forward"] = _in_lanes(norm)
        yield len(norms)
    finally:
        for norm, forward in before:
            if forward is _ABSENT:
                vars(norm).pop("forward", None)
            else:
                vars(norm)["forward"] = forward


def _reorderable(model: nn.Module) -> list[RMSNorm]:
    """Return the modules that compute what diffusers' RMSNorm computes; a subclass may compute something else.

    Raises:
        ValueError: as :func:`norm_reduction_in_lanes`.
    """
    norms = [m for m in model.modules() if isinstance(m, RMSNorm) and type(m).forward is RMSNorm.forward]
    widths = [norm.dim[-1] for norm in norms if norm.dim[-1] % LANES]
    problem = None
    if not norms:
        problem = f"{type(model).__name__} has no RMSNorm of diffusers, so there is nothing to reorder"
    elif widths:
        problem = f"an RMSNorm over {widths[0]} elements cannot be added up in groups of {LANES}"
    if problem is not None:
        raise ValueError(problem)
    return norms


def _in_lanes(norm: RMSNorm) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return ``RMSNorm.forward`` of ``norm``, line for line but for the mean."""

    def forward(hidden_states: torch.Tensor) -> torch.Tensor:
        given = hidden_states.dtype
        hidden_states = hidden_states * torch.rsqrt(mean_of_squares(hidden_states) + norm.eps)
        if norm.weight is None:
            return hidden_states.to(given)
        if norm.weight.dtype in _HALVES:
            hidden_states = hidden_states.to(norm.weight.dtype)
        hidden_states = hidden_states * norm.weight
        return hidden_states if norm.bias is None else hidden_states + norm.bias

    return forward


def mean_of_squares(x: torch.Tensor) -> torch.Tensor:
    """Return the mean of squares of the last dimension, ``[..., n]`` to ``[..., 1]`` float32, added in lanes of 8."""
    squares = x.to(torch.float32).pow(2)
    lanes = squares.view(*x.shape[:-1], x.shape[-1] // LANES, LANES).sum(-1)
    return lanes.sum(-1, keepdim=True) / x.shape[-1]
