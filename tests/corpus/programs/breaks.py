"""Where tracing stops, and what is left of the frame."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from ..expectation import Break, Cause, expects, since, until

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger("compilescope.tests.corpus")
log.setLevel(logging.CRITICAL)


def wraps_anew(signal: Tensor) -> Tensor:
    @torch.compiler.disable  # here: wrapping
    def shift(value: Tensor) -> Tensor:
        return value - 10

    return shift(signal) / 4  # here: calling


@expects(
    # 2.14 tells the wrapping itself from other calls that it skips.
    since(2, 14, breaks=(Break("wrapping", "compiler_disable"), Break("calling", "compiler_disable"))),
    compiles={
        "wraps_anew": 1,
        "torch_dynamo_resume_in_wraps_anew_at_{wrapping}": 1,
        "torch_dynamo_resume_in_wraps_anew_at_{calling}": 1,
    },
    breaks=(Break("wrapping", "skipped_function"), Break("calling", "compiler_disable")),
)
def helper_is_disabled_anew_at_each_call() -> None:
    compiled = torch.compile(wraps_anew, backend="eager")
    for _ in range(3):
        compiled(torch.ones(4))


class Chatty(nn.Module):
    def forward(self, tokens: Tensor) -> Tensor:
        padded = tokens + 3
        log.info("padded to %s", 8)  # here: logging
        return padded.relu()


@expects(
    compiles={"Chatty.forward": 1, "Chatty.torch_dynamo_resume_in_forward_at_{logging}": 1},
    breaks=(Break("logging", "logging"),),
)
def logger_is_called_in_forward() -> None:
    compiled = torch.compile(Chatty(), backend="eager")
    for _ in range(2):
        compiled(torch.ones(3))


class Region:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pass


def measured(signal: Tensor) -> Tensor:
    shifted = signal - 2
    with Region():
        doubled = shifted * 2
        torch._dynamo.graph_break()  # here: in region
        doubled = doubled + 5
    return doubled.tanh()


@expects(breaks=(Break("in region", "explicit_graph_break"),), fallbacks={"skipped_frame": 3})
def break_inside_a_context_manager_of_the_users() -> None:
    compiled = torch.compile(measured, backend="eager")
    for _ in range(3):
        compiled(torch.ones(2))


def two_halves(signal: Tensor) -> Tensor:
    quadrupled = signal * 4  # here: first half
    print("between")  # noqa: T201 # here: print
    return quadrupled - signal.shape[0]  # here: second half


@expects(
    compiles={"two_halves": 2, "torch_dynamo_resume_in_two_halves_at_{print}": 2},
    recompiles=(
        Cause(
            code="two_halves",
            kind="size",
            source="signal.size()[0]",
            expected="5",
            actual="8",
            line="first half",
            shape_driven=True,
        ),
        Cause(
            code="torch_dynamo_resume_in_two_halves_at_{print}",
            kind="size",
            source="signal.size()[0]",
            also=("quadrupled.size()[0]",),
            expected="5",
            actual="8",
            line="second half",
            shape_driven=True,
        ),
    ),
    breaks=(Break("print", "print", events=2),),
)
def print_between_two_halves_at_three_sizes() -> None:
    compiled = torch.compile(two_halves, backend="eager")
    for size in (5, 8, 11):
        compiled(torch.ones(size))


@torch.compiler.disable
def to_disk(features: Tensor) -> Tensor:
    return features.cos()


def offload(module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
    return to_disk(output) - 1  # here: offload


class Offloaded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(6, 3), nn.Linear(3, 6)

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * 2 - self.up(self.down(tokens))  # here: hooked call


HOOKED = {
    "Offloaded.forward": 1,
    "offload": 1,
    "torch_dynamo_resume_in_offload_at_{offload}": 1,
    "Offloaded.torch_dynamo_resume_in_forward_at_{hooked call}": 1,
}


@expects(
    # 2.11 leaves the frames of torch.nn alone that are called after a break.
    until(2, 11, compiles=HOOKED),
    compiles=HOOKED | {"Linear.forward": 1},
    breaks=(Break("offload", "compiler_disable", events=2),),
)
def hook_of_a_submodule_breaks() -> None:
    model = Offloaded()
    model.down.register_forward_hook(offload)
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        compiled(torch.ones(2, 6))
