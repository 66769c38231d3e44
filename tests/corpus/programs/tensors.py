"""Tensors of one shape that differ in something else."""

from __future__ import annotations

import torch
from torch import Tensor

from ..expectation import Cause, expects


def triple(pixels: Tensor) -> Tensor:
    return pixels + pixels * 2


@expects(
    compiles={"triple": 3},
    recompiles=(
        Cause(code="triple", kind="stride", source="pixels.stride()[0]", shape_driven=False),
        Cause(code="triple", kind="stride", source="pixels.stride()", shape_driven=False),
    ),
)
def slice_and_transpose_of_one_shape() -> None:
    compiled = torch.compile(triple, backend="eager")
    compiled(torch.ones(3, 5))
    compiled(torch.ones(3, 8)[:, :5])
    compiled(torch.ones(5, 3).t())


def clamped_difference(left: Tensor, right: Tensor) -> Tensor:
    return (left - right).clamp(min=0)


@expects(
    compiles={"clamped_difference": 2},
    recompiles=(
        Cause(code="clamped_difference", kind="requires_grad", source="left.requires_grad", shape_driven=False),
    ),
)
def requires_grad_flips_without_gradients() -> None:
    compiled = torch.compile(clamped_difference, backend="eager")
    left, right = torch.randn(6), torch.randn(6)
    with torch.no_grad():
        compiled(left, right)
        left.requires_grad_(True)  # noqa: FBT003 (torch's signature)
        compiled(left, right)


def softplus(values: Tensor) -> Tensor:
    return torch.nn.functional.softplus(values)


@expects(
    compiles={"softplus": 3},
    recompiles=(
        Cause(code="softplus", kind="dtype", source="values.dtype", shape_driven=False),
        Cause(code="softplus", kind="size", source="values.size()[0]", shape_driven=True),
    ),
)
def dtype_and_size_move_at_once_then_size_alone() -> None:
    compiled = torch.compile(softplus, backend="eager")
    compiled(torch.ones(5, 2))
    compiled(torch.ones(8, 2, dtype=torch.float64))
    compiled(torch.ones(9, 2))
