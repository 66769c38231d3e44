"""Tensors of one shape that differ in something else."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.utils import _pytree as pytree

from ..expectation import Cause, Change, expects, until
from .process_group import single_process_group


def triple(pixels: Tensor) -> Tensor:
    return pixels + pixels * 2  # here: triple


@expects(
    compiles={"triple": 3},
    recompiles=(
        Cause(
            code="triple",
            kind="stride",
            source="pixels.stride()[0]",
            expected="5",
            actual="8",
            line="triple",
            shape_driven=False,
        ),
        Cause(code="triple", kind="stride", source="pixels.stride()", line="triple", shape_driven=False),
    ),
)
def slice_and_transpose_of_one_shape() -> None:
    compiled = torch.compile(triple, backend="eager")
    compiled(torch.ones(3, 5))
    compiled(torch.ones(3, 8)[:, :5])
    compiled(torch.ones(5, 3).t())


def clamped_difference(left: Tensor, right: Tensor) -> Tensor:
    return (left - right).clamp(min=0)  # here: difference


@expects(
    compiles={"clamped_difference": 2},
    recompiles=(
        Cause(
            code="clamped_difference",
            kind="requires_grad",
            source="left.requires_grad",
            expected="False",
            actual="True",
            line="difference",
            shape_driven=False,
        ),
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
    return torch.nn.functional.softplus(values)  # here: softplus


@expects(
    compiles={"softplus": 3},
    recompiles=(
        Cause(
            code="softplus",
            kind="dtype",
            source="values.dtype",
            expected="torch.float32",
            actual="torch.float64",
            line="softplus",
            shape_driven=False,
            beside=(Change(kind="size", source="values.size()[0]", expected="5", actual="8", line="softplus"),),
        ),
        Cause(
            code="softplus",
            kind="size",
            source="values.size()[0]",
            expected="5",
            actual="9",
            line="softplus",
            shape_driven=True,
        ),
    ),
)
def dtype_and_size_move_at_once_then_size_alone() -> None:
    compiled = torch.compile(softplus, backend="eager")
    compiled(torch.ones(5, 2))
    compiled(torch.ones(8, 2, dtype=torch.float64))
    compiled(torch.ones(9, 2))


class Delayed(Tensor):
    @staticmethod
    def __new__(cls: type[Self], ready: Tensor) -> Self:
        return Tensor._make_wrapper_subclass(cls, ready.shape, strides=ready.stride(), dtype=ready.dtype)

    def __init__(self, ready: Tensor) -> None:
        self.ready = ready

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["ready"], None

    @staticmethod
    def __tensor_unflatten__(tensors: dict[str, Tensor], meta: None, size: Any, stride: Any) -> Delayed:
        return Delayed(tensors["ready"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(Delayed, lambda delayed: delayed.ready, (args, kwargs or {}))
        return func(*args, **kwargs)


def combine(weight: Tensor, tokens: Tensor) -> Tensor:
    return tokens @ weight - 1  # here: weight


@expects(
    compiles={"combine": 2},
    recompiles=(
        Cause(
            code="combine",
            kind="tensor_type",
            source="weight",
            names=("Delayed", "Tensor"),
            line="weight",
            shape_driven=False,
        ),
    ),
)
def wrapper_subclass_and_plain_tensor_take_turns() -> None:
    compiled = torch.compile(combine, backend="eager")
    weight, tokens = torch.ones(4, 4), torch.ones(3, 4)
    for _ in range(2):
        compiled(Delayed(weight), tokens)
        compiled(weight, tokens)


@expects(
    # There the graph that was compiled with frozen layers serves them unfrozen, too.
    until(2, 11, compiles={"wrap_inline.<locals>.inner": 1}, recompiles=(), matches_eager=False),
    compiles={"wrap_inline.<locals>.inner": 2},
    recompiles=(
        Cause(
            code="wrap_inline.<locals>.inner",
            kind="requires_grad",
            source="fn[0].weight.requires_grad",
            also=("fn[1].weight.requires_grad",),
            expected="False",
            actual="True",
            shape_driven=False,
        ),
    ),
)
def layers_are_frozen_in_the_first_stage_of_training() -> bool:
    model = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(3)))
    frozen = model[:2]
    frozen.requires_grad_(False)  # noqa: FBT003 (torch's signature)
    compiled = torch.compile(model, backend="aot_eager")
    compiled(torch.ones(3, 4)).mean().backward()
    frozen.requires_grad_(True)  # noqa: FBT003 (torch's signature)
    compiled(torch.ones(3, 4)).mean().backward()
    return model[0].weight.grad is not None


def blend(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    return first - second / 2 - third


@expects(
    compiles={"blend": 3},
    recompiles=(
        Cause(code="blend", kind="object_id", source="first, third", shape_driven=False),
        Cause(code="blend", kind="object_id", source="first, second", shape_driven=False),
    ),
)
def one_tensor_stands_for_two_arguments() -> None:
    compiled = torch.compile(blend, backend="eager")
    left, middle, right = torch.ones(4), torch.zeros(4), torch.ones(4)
    compiled(left, middle, right)
    compiled(left, middle, left)
    compiled(left, left, right)
    compiled(left, middle, right)


def decrement(square: Tensor) -> Tensor:
    return square - 1


@expects(
    until(
        2,
        11,
        recompiles=(
            Cause(code="decrement", kind="duck_size", source="square.size()[0], square.size()[1]", shape_driven=True),
        ),
    ),
    compiles={"decrement": 2},
    recompiles=(Cause(code="decrement", kind="dim_marking", source="square", shape_driven=False),),
)
def equal_sizes_are_marked_after_the_first_call() -> None:
    compiled = torch.compile(decrement, backend="eager", dynamic=True)
    square = torch.ones(12, 12)
    compiled(square)
    torch._dynamo.maybe_mark_dynamic(square, [0, 1])
    compiled(square)
    compiled(torch.ones(7, 7))
    compiled(torch.ones(7, 9))


def activate(sharded: Tensor) -> Tensor:
    return sharded.tanh()


@expects(
    compiles={"activate": 2},
    recompiles=(
        Cause(
            code="activate",
            kind="subclass_metadata",
            source=None,
            names=("Shard", "Replicate"),
            shape_driven=False,
        ),
    ),
)
def distributed_tensor_is_placed_elsewhere() -> None:
    with single_process_group():
        mesh = init_device_mesh("cpu", (1,))
        compiled = torch.compile(activate, backend="eager")
        for placement in (Shard(0), Replicate()):
            compiled(distribute_tensor(torch.ones(6, 6), mesh, [placement]))
