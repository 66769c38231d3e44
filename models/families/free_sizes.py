"""One graph for every size: the sizes of a block's inputs, told to Dynamo as unknown.

The families' counterpart of :mod:`models.mammoth_moda2.free_sizes`, which says why marks and not settings. Two more
things make graphs of their own, and are taken away here: inputs that are views of another tensor, and strides that
are not those of a tensor of its own (a block's output that is a slice, the next block's input).
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._dynamo.decorators import mark_unbacked  # its only home; torch.compiler does not offer it

from models.families.processors import Rotary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.utils.hooks import RemovableHandle

    from models.families.recipe import Recipe, Sizes

SUPPORTED: Final = "min" in inspect.signature(mark_unbacked).parameters
_MAY_BE_EMPTY: Final = "?"


def leave_sizes_free(model: torch.nn.Module, recipe: Recipe) -> list[RemovableHandle]:
    """Mark the inputs of every block before it is called, for a model compiled by :mod:`models.regional`.

    A view among them is copied first. Fuse before: the table that a block is given is marked too, while the model's
    own rotary embedding is not.

    Returns:
        The hooks, to be removed one day.

    Raises:
        RuntimeError: this torch cannot do it (2.11 cannot, 2.13 can).
    """
    if not SUPPORTED:
        msg = f"torch {torch.__version__} cannot be told that an unbacked size is at least 1; torch 2.13 can"
        raise RuntimeError(msg)
    hooks = []
    for block in model.modules():
        sizes = recipe.sizes.get(type(block).__name__)
        if sizes is not None:
            hooks.append(block.register_forward_pre_hook(_Marker(sizes, type(block)), with_kwargs=True))
    return hooks


class _Marker:
    """Marks the arguments of one class of blocks."""

    def __init__(self, sizes: Mapping[str, Sizes], block: type[torch.nn.Module]) -> None:
        self.sizes = sizes
        self.names = list(inspect.signature(block.forward).parameters)[1:]

    def __call__(
        self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments, marked, by name."""
        given = dict(zip(self.names, args, strict=False)) | kwargs
        for name, value in given.items():
            if isinstance(value, Rotary):
                _mark(value.table, ("rows",))
            elif name in self.sizes and isinstance(value, torch.Tensor):
                given[name] = _own(value)
                _mark(given[name], self.sizes[name])
        return (), given


def _own(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is no view, with the strides that its sizes say.

    ``is_contiguous`` is not enough: it asks nothing of the strides of a size of 1, which a slice in a compiled block's
    output leaves as they were, nor of an empty tensor, which has those of a size of 1.
    """
    strides = tuple(math.prod(x.shape[dim + 1 :]) for dim in range(x.dim()))
    if x.numel() == 0:
        return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)
    if x._is_view() or x.stride() != strides:  # noqa: SLF001 (no public name tells it)
        return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)
    return x


def _mark(x: torch.Tensor, sizes: Sizes) -> None:
    for dim, name in enumerate(sizes):
        if name is not None:
            mark_unbacked(x, dim, shape_id=name, min=0 if name.endswith(_MAY_BE_EMPTY) else 1)
