"""Calls of compiled callables that run eager, with and without a word from torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..expectation import Cause, Error, expects, until

if TYPE_CHECKING:
    from collections.abc import Iterator


def gradients() -> Iterator[Tensor | None]:
    layer = torch.nn.Linear(3, 1)
    for _ in range(2):
        layer(torch.ones(2, 3)).sum().backward()
        yield layer.weight.grad
        layer.zero_grad()


@expects(targets={"gradients": "skipped"}, fallbacks={"unsupported": 1})
def compiled_callable_is_a_generator() -> int:
    return len(list(torch.compile(gradients, backend="eager")()))


def squash(values: Tensor) -> Tensor:
    return values.sigmoid()  # here: squash


def every_rank() -> None:
    compiled = torch.compile(squash, backend="eager", dynamic=False)
    for rank in range(1, 11):
        compiled(torch.ones([2] * rank))


def half_precision() -> torch.dtype:
    return torch.compile(squash, backend="eager", dynamic=False)(torch.ones(2, dtype=torch.float16)).dtype


RANKS = Cause(
    code="squash",
    kind="rank",
    source="values.dim()",
    expected=tuple("1234567"),
    actual=tuple("2345678"),
    line="squash",
    shape_driven=True,
    count=7,
)
NINTH_RANK = Cause(
    code="squash", kind="rank", source="values.dim()", expected="8", actual="9", line="squash", shape_driven=True
)


@expects(
    compiles={"squash": 8}, recompiles=(RANKS,), at_limit=(NINTH_RANK,), fallbacks={"recompile_limit": 3},
)  # fmt: skip
def second_test_in_the_process_compiles_nothing() -> None:
    every_rank()
    half_precision()


@expects(
    compiles={"squash": 9}, recompiles=(RANKS,), at_limit=(NINTH_RANK,), fallbacks={"recompile_limit": 2},
)  # fmt: skip
def second_test_after_a_reset_compiles() -> None:
    every_rank()
    torch.compiler.reset()
    half_precision()


def no_compiler(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> None:
    msg = "this machine has no compiler"
    raise RuntimeError(msg)


def cubic(values: Tensor) -> Tensor:
    return values**3 - values


@expects(errors=(Error("backend_error"),), fallbacks={"backend_error": 4})
def backend_error_is_suppressed() -> None:
    compiled = torch.compile(cubic, backend=no_compiler)
    with torch._dynamo.config.patch(suppress_errors=True):
        for _ in range(4):
            compiled(torch.ones(3))


def shift(values: Tensor, by: int) -> Tensor:
    return values - by


@expects(compiles={"shift": 1}, refused=None, fallbacks={"stance": 2})
def stance_runs_a_miss_eagerly() -> None:
    compiled = torch.compile(shift, backend="eager", dynamic=False)
    compiled(torch.ones(4), 1)
    with torch.compiler.set_stance("eager_on_recompile"):
        for by in (2, 1, 3):
            compiled(torch.ones(4), by)


def product(left: Tensor, right: Tensor) -> Tensor:
    return left @ right


@expects(targets={"product": "skipped"}, fallbacks={"dispatch_mode": 3})
def flops_are_counted_around_the_call() -> None:
    compiled = torch.compile(product, backend="eager")
    square = torch.ones(3, 3)
    with FlopCounterMode(display=False):
        for _ in range(3):
            compiled(square, square)


def table(length: int) -> Tensor:
    return torch.arange(float(length)).sin()


class Disabled(nn.Module):
    @torch.compiler.disable(recursive=False)
    def forward(self, signal: Tensor) -> Tensor:
        return signal - table(signal.shape[0])


@expects(
    # Nothing in torch 2.11 says that the frame was left alone.
    until(2, 11, targets={"Disabled.forward": "never_reached"}),
    compiles={"table": 1},
    targets={"Disabled.forward": "skipped"},
    fallbacks={"skipped_frame": 4},
)
def only_a_helper_of_a_disabled_forward_is_compiled() -> None:
    compiled = torch.compile(Disabled(), backend="eager")
    for _ in range(4):
        compiled(torch.ones(6))


class Doubling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)

    def __call__(self, tokens: Tensor) -> Tensor:
        return super().__call__(tokens * 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.project(tokens)


@expects(compiles={"Doubling.__call__": 1}, targets={"Doubling.forward": "inlined"})
def module_overrides_its_call() -> None:
    compiled = torch.compile(Doubling(), backend="eager")
    for _ in range(4):
        compiled(torch.ones(2, 3))
