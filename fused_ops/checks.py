"""Validate the arguments of the public ops before any path is chosen."""

from __future__ import annotations

from typing import Final

import torch

_DTYPES: Final = (torch.bfloat16, torch.float16, torch.float32)


def _shape(x: torch.Tensor) -> str:
    return str(list(x.shape))


def _check_rank(name: str, x: torch.Tensor, dims: str) -> None:
    if x.dim() != dims.count(",") + 1:
        msg = f"{name} must be [{dims}], got shape {_shape(x)}"
        raise ValueError(msg)


def _check_dtypes(named: dict[str, torch.Tensor], weights: dict[str, torch.Tensor], table: torch.Tensor) -> None:
    """Check that activations share a dtype, weights share a dtype, and the table fits."""
    (first_name, first), *others = named.items()
    if first.dtype not in _DTYPES:
        msg = f"{first_name} must be bfloat16, float16 or float32, got {first.dtype}"
        raise TypeError(msg)
    for name, x in others:
        if x.dtype != first.dtype:
            msg = f"{name} is {x.dtype} but {first_name} is {first.dtype}"
            raise TypeError(msg)
    (weight_name, weight), *other_weights = weights.items()
    if weight.dtype not in {first.dtype, torch.float32}:
        msg = f"{weight_name} must be torch.float32 or {first.dtype} as {first_name}, got {weight.dtype}"
        raise TypeError(msg)
    for name, x in other_weights:
        if x.dtype != weight.dtype:
            msg = f"{name} is {x.dtype} but {weight_name} is {weight.dtype}"
            raise TypeError(msg)
    if table.dtype not in {first.dtype, torch.float32}:
        msg = f"table must be torch.float32 or {first.dtype} as {first_name}, got {table.dtype}"
        raise TypeError(msg)


def _check_device(named: dict[str, torch.Tensor]) -> None:
    (first_name, first), *others = named.items()
    for name, x in others:
        if x.device != first.device:
            msg = f"{name} is on {x.device} but {first_name} is on {first.device}"
            raise ValueError(msg)


def _check_weights(weights: dict[str, torch.Tensor], head_dim: int) -> None:
    for name, weight in weights.items():
        if weight.dim() != 1 or weight.shape[0] != head_dim:
            msg = f"{name} must be [{head_dim}], one element for each of a head, got shape {_shape(weight)}"
            raise ValueError(msg)


def _check_table(table: torch.Tensor, tokens: int, head_dim: int, rotary_dim: int | None) -> int:
    """Check the table and return how much of a head is rotated."""
    rotary = head_dim if rotary_dim is None else rotary_dim
    if rotary % 2 or not 2 <= rotary <= head_dim:  # noqa: PLR2004 (one pair)
        msg = f"rotary_dim must be even and in 2..{head_dim} (head_dim), got {rotary}"
        raise ValueError(msg)
    if table.dim() != 2 or table.shape[1] != rotary:  # noqa: PLR2004 (a matrix)
        msg = f"table must be [tokens, {rotary}] (cos | sin, rotary_dim in all), got shape {_shape(table)}"
        raise ValueError(msg)
    if table.shape[0] != tokens:
        msg = f"table must have a row for each of {tokens} tokens, got {table.shape[0]} rows"
        raise ValueError(msg)
    return rotary


def check_per_stream(
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    table: torch.Tensor,
    head_dim: int | None,
    rotary_dim: int | None,
) -> int:
    """Check the arguments of ``qk_norm_rope`` and return the rotary dim.

    Raises:
        ValueError: if shapes or devices do not fit.
        TypeError: if dtypes do not fit.
    """
    _check_rank("q", q, "tokens, heads, head_dim")
    _check_rank("k", k, "tokens, heads, head_dim")
    dim = q.shape[2]
    if head_dim is not None and head_dim != dim:
        msg = f"head_dim is {head_dim} but q has heads of {dim} elements"
        raise ValueError(msg)
    if k.shape[0] != q.shape[0] or k.shape[2] != dim:
        msg = f"k must have the tokens and head_dim of q, got shapes {_shape(q)} and {_shape(k)}"
        raise ValueError(msg)
    weights = {"q_weight": q_weight, "k_weight": k_weight}
    _check_weights(weights, dim)
    rotary = _check_table(table, q.shape[0], dim, rotary_dim)
    _check_dtypes({"q": q, "k": k}, weights, table)
    _check_device({"q": q, "k": k, **weights, "table": table})
    return rotary


def _check_stream(index: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Check that query, key and value of one stream fit each other."""
    names = (f"q{index}", f"k{index}", f"v{index}")
    for name, x in zip(names, (q, k, v), strict=True):
        _check_rank(name, x, "batch, seq, heads, head_dim")
    if q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3] or k.shape != v.shape:
        msg = (
            f"{', '.join(names)} must share batch, seq and head_dim, and the last two their heads, "
            f"got shapes {_shape(q)}, {_shape(k)} and {_shape(v)}"
        )
        raise ValueError(msg)


def check_joint(
    streams: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    weights: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    table: torch.Tensor,
    rotary_dim: int | None,
) -> int:
    """Check the arguments of ``joint_qkv_norm_rope`` and return the rotary dim.

    Raises:
        ValueError: if shapes or devices do not fit.
        TypeError: if dtypes do not fit.
    """
    q0, k0, _, q1, k1, _ = streams
    _check_stream(0, *streams[:3])
    _check_stream(1, *streams[3:])
    for name, x, y in (("q", q0, q1), ("k", k0, k1)):
        if x.shape[0] != y.shape[0] or x.shape[2:] != y.shape[2:]:
            msg = f"{name}0 and {name}1 must share batch, heads and head_dim, got shapes {_shape(x)} and {_shape(y)}"
            raise ValueError(msg)
    dim = q0.shape[3]
    by_name = dict(zip(("q0_weight", "k0_weight", "q1_weight", "k1_weight"), weights, strict=True))
    _check_weights(by_name, dim)
    rotary = _check_table(table, q0.shape[0] * (q0.shape[1] + q1.shape[1]), dim, rotary_dim)
    named = dict(zip(("q0", "k0", "v0", "q1", "k1", "v1"), streams, strict=True))
    _check_dtypes(named, by_name, table)
    _check_device({**named, **by_name, "table": table})
    return rotary
