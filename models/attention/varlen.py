"""Attention over samples of different lengths laid end to end, and the dense kernel without a fake.

On CUDA this is PyTorch's own ``torch.nn.attention.varlen``. Elsewhere a block-diagonal mask says the
same, in memory that grows with the square of all tokens: enough to trace and to check with.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn

if TYPE_CHECKING:
    from collections.abc import Callable

# torch 2.11 takes grouped heads without being told, later ones want to hear it.
_ASKS_FOR_GROUPS: Final = "enable_gqa" in inspect.signature(varlen_attn).parameters
_OPAQUE: Final = "compilescope_models::opaque_attention"

torch.library.define(_OPAQUE, "(Tensor query, Tensor key, Tensor value, float scale) -> Tensor")


def varlen_attention(  # noqa: PLR0913 (two sequences, each with its boundaries and its longest)
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_boundaries: torch.Tensor,
    key_boundaries: torch.Tensor,
    *,
    longest_query: int,
    longest_key: int,
    scale: float,
) -> torch.Tensor:
    """Attend within each sample.

    Args:
        query: ``[Tq, H, D]``.
        key: ``[Tk, KV, D]``; ``KV`` divides ``H``.
        value: as ``key``.
        query_boundaries: ``[B + 1]`` int32, where each sample begins; the last is ``Tq``.
        key_boundaries: likewise for the keys.
        longest_query: at least the longest sample's queries.
        longest_key: at least the longest sample's keys.
        scale: what scores are multiplied by.

    Returns:
        ``[Tq, H, D]``.
    """
    if query.shape[0] == 0:
        # The kernel refuses to be launched over nothing.
        return query.new_empty(query.shape)
    if query.device.type == "cuda":
        options: dict[str, Any] = {"scale": scale}
        if _ASKS_FOR_GROUPS:
            options["enable_gqa"] = query.shape[1] != key.shape[1]
        kernel: Callable[..., torch.Tensor] = varlen_attn  # type: ignore[assignment]  # without return_aux
        return kernel(query, key, value, query_boundaries, key_boundaries, longest_query, longest_key, **options)
    same = _sample_of(query, query_boundaries)[:, None] == _sample_of(key, key_boundaries)[None]
    group = query.shape[1] // key.shape[1]
    out = functional.scaled_dot_product_attention(
        _heads_first(query),
        _heads_first(key.repeat_interleave(group, dim=1)),
        _heads_first(value.repeat_interleave(group, dim=1)),
        attn_mask=same,
        scale=scale,
    )
    return out[0].transpose(0, 1)


def _heads_first(x: torch.Tensor) -> torch.Tensor:
    """Turn ``[T, heads, D]`` into ``[1, heads, T, D]``."""
    return x.transpose(0, 1)[None]


def _sample_of(rows: torch.Tensor, boundaries: torch.Tensor) -> torch.Tensor:
    index = torch.arange(rows.shape[0], device=rows.device, dtype=boundaries.dtype)
    return torch.searchsorted(boundaries[1:], index, right=True)


def even_boundaries(samples: int, length: int, device: torch.device) -> torch.Tensor:
    """Return the ``[samples + 1]`` boundaries of samples of one ``length``, which may be 0.

    A range in steps of ``length`` would say the same, and raise at 0: "step must be nonzero".
    """
    return torch.arange(samples + 1, device=device, dtype=torch.int32) * length


def dense_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    """Attend among all tokens of each sample. Shapes as a backend's."""
    samples, queries = query.shape[:2]
    keys = key.shape[1]
    out = varlen_attention(
        query.flatten(0, 1),
        key.flatten(0, 1),
        value.flatten(0, 1),
        even_boundaries(samples, queries, query.device),
        even_boundaries(samples, keys, query.device),
        longest_query=queries,
        longest_key=keys,
        scale=scale,
    )
    return out.view(samples, queries, *out.shape[1:])


def _opaque(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    return dense_attention(query, key, value, scale).contiguous()


torch.library.impl(_OPAQUE, "CPU", _opaque)
torch.library.impl(_OPAQUE, "CUDA", _opaque)


def opaque_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    """Attend densely through an op that has no fake implementation, so that no graph can hold it.

    What a kernel library does that registers its op and stops there. Shapes as a backend's.
    """
    out: torch.Tensor = torch.ops.compilescope_models.opaque_attention(query, key, value, scale)
    return out
