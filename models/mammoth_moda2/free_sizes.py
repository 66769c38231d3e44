"""One graph for every size: batch and sequence of a block's inputs, told to Dynamo as unknown.

``dynamic=True`` still makes graphs of their own for sizes 0 and 1, and takes two sizes that are equal
once for one. A size that is marked unbacked has no value while the graph is made, so nothing can be
made of it. Unlike ``backed_size_oblivious``, which says the same to Dynamo, it holds under Inductor,
and it changes no setting of the process.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._dynamo.decorators import mark_unbacked  # its only home; torch.compiler does not offer it

from models.attention import AttentionMetadata
from models.mammoth_moda2.block import TransformerBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.utils.hooks import RemovableHandle

    from models.mammoth_moda2.rope import Rotary

# Before torch could be told a least size, it could not trace a branch on an empty sequence, nor SDPA on a CPU.
SUPPORTED: Final = "min" in inspect.signature(mark_unbacked).parameters


def leave_sizes_free(model: torch.nn.Module) -> list[RemovableHandle]:
    """Mark the inputs of every block of ``model`` before it is called, for a model compiled by regions.

    The marks are set by hooks, which :func:`models.regional.regionally_compile` keeps outside the graph.

    Returns:
        The hooks, to be removed one day.

    Raises:
        RuntimeError: this torch cannot do it (2.11 cannot, 2.13 can).
    """
    if not SUPPORTED:
        msg = f"torch {torch.__version__} cannot be told that an unbacked size is at least 1; torch 2.13 can"
        raise RuntimeError(msg)
    return [
        block.register_forward_pre_hook(_mark_inputs)
        for block in model.modules()
        if isinstance(block, TransformerBlock)
    ]


def _mark_inputs(block: torch.nn.Module, arguments: tuple[Any, ...]) -> None:  # noqa: ARG001 (torch's hook)
    for tensor, sizes in _sizes(*arguments):
        for dim, name in enumerate(sizes):
            mark_unbacked(tensor, dim, shape_id=name, min=1)


def _sizes(
    hidden_states: torch.Tensor,
    mask: torch.Tensor | AttentionMetadata | None,
    rotary: Rotary,
    temb: torch.Tensor | None = None,
) -> Iterator[tuple[torch.Tensor, tuple[str, ...]]]:
    """Name the first sizes of every tensor; sizes of one name are equal."""
    yield hidden_states, ("batch", "sequence")
    yield rotary.cos, ("batch", "sequence")
    yield rotary.sin, ("batch", "sequence")
    if rotary.table is not None:
        yield rotary.table, ("rows",)
    if temb is not None:
        yield temb, ("batch",)
    bare = mask.mask if isinstance(mask, AttentionMetadata) else mask
    if bare is not None:
        yield bare, ("batch", "sequence")
    packing = mask.packing if isinstance(mask, AttentionMetadata) else None
    if packing is not None:
        yield packing.indices, ("tokens",)
        yield packing.boundaries, ("boundaries",)
