"""The backward of both ops, in plain torch operations.

With ``n = x * inv * w`` and a rotation ``R`` of pairs, the gradient of the output goes back through
the inverse rotation, ``R^T``, which is the rotation by ``-sin``, and then through the norm::

    g  = R^T grad
    dw = sum over tokens and heads of g * x * inv
    dx = inv * (g * w - x * inv * mean(g * w * x * inv))

(RMSNorm's backward as in Zhang and Sennrich, 2019, arXiv:1910.07467, appendix.) Roundings of the
forward pass are treated as the identity; all arithmetic is float32. The table has no gradient.
"""

from __future__ import annotations

from typing import Any

import torch

from fused_ops.reference import rotate


def _norm_rope_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    table: torch.Tensor,
    eps: float,
    *,
    interleaved: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of ``x`` ``[tokens, heads, D]`` and of ``weight`` ``[D]``."""
    cos, sin = table.float().chunk(2, dim=-1)
    inverse_table = torch.cat((cos, -sin), dim=-1)
    normed_grad = rotate(grad.float(), inverse_table, interleaved=interleaved)
    wide = x.float()
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    unit = wide * inverse
    weight_grad = (normed_grad * unit).sum((0, 1))
    scaled = normed_grad * weight.float()
    x_grad = inverse * (scaled - unit * (scaled * unit).mean(-1, keepdim=True))
    return x_grad.to(x.dtype), weight_grad.to(weight.dtype)


def save_per_stream(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:  # noqa: ANN401, ARG001 (torch's protocol)
    """Keep what the backward of ``qk_norm_rope`` needs."""
    q, k, q_weight, k_weight, table, eps, _, interleaved, _ = inputs
    ctx.save_for_backward(q, k, q_weight, k_weight, table)
    ctx.eps, ctx.interleaved = eps, interleaved


def per_stream_backward(
    ctx: Any,  # noqa: ANN401 (torch's protocol)
    q_grad: torch.Tensor,
    k_grad: torch.Tensor,
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of the inputs of ``qk_norm_rope``."""
    q, k, q_weight, k_weight, table = ctx.saved_tensors
    dq, dq_weight = _norm_rope_backward(q_grad, q, q_weight, table, ctx.eps, interleaved=ctx.interleaved)
    dk, dk_weight = _norm_rope_backward(k_grad, k, k_weight, table, ctx.eps, interleaved=ctx.interleaved)
    return dq, dk, dq_weight, dk_weight, None, None, None, None, None


def save_joint(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:  # noqa: ANN401, ARG001 (torch's protocol)
    """Keep what the backward of ``joint_qkv_norm_rope`` needs."""
    q0, k0, _, q1, k1, _, *weights, table, eps, _, interleaved, _ = inputs
    ctx.save_for_backward(q0, k0, q1, k1, *weights, table)
    ctx.eps, ctx.interleaved = eps, interleaved


def joint_backward(
    ctx: Any,  # noqa: ANN401 (torch's protocol)
    q_grad: torch.Tensor,
    k_grad: torch.Tensor,
    v_grad: torch.Tensor,
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of the inputs of ``joint_qkv_norm_rope``."""
    q0, k0, q1, k1, q0_weight, k0_weight, q1_weight, k1_weight, table = ctx.saved_tensors
    first = q0.shape[1]
    rows = table.view(*q_grad.shape[:2], table.shape[-1])

    def stream(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, part: slice) -> tuple[Any, Any]:
        x_grad, weight_grad = _norm_rope_backward(
            grad[:, part].flatten(0, 1),
            x.flatten(0, 1),
            weight,
            rows[:, part].flatten(0, 1),
            ctx.eps,
            interleaved=ctx.interleaved,
        )
        return x_grad.view(x.shape), weight_grad

    head, tail = slice(None, first), slice(first, None)
    dq0, dq0_weight = stream(q_grad, q0, q0_weight, head)
    dk0, dk0_weight = stream(k_grad, k0, k0_weight, head)
    dq1, dq1_weight = stream(q_grad, q1, q1_weight, tail)
    dk1, dk1_weight = stream(k_grad, k1, k1_weight, tail)
    dv0, dv1 = v_grad[:, head], v_grad[:, tail]
    weights = (dq0_weight, dk0_weight, dq1_weight, dk1_weight)
    return dq0, dk0, dv0, dq1, dk1, dv1, *weights, None, None, None, None, None
