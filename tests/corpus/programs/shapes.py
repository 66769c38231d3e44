"""Sizes that move: what a graph was compiled for, and which other sizes it serves."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..expectation import Cause, Error, expects


def gate_tokens(tokens: Tensor) -> Tensor:
    return functional.silu(tokens) * tokens.shape[0]  # here: gate


@expects(
    compiles={"gate_tokens": 2},
    recompiles=(
        Cause(
            code="gate_tokens",
            kind="size",
            source="tokens.size()[0]",
            expected="12",
            actual="20",
            line="gate",
            shape_driven=True,
        ),
    ),
)
def sequence_grows_and_shrinks() -> None:
    compiled = torch.compile(gate_tokens, backend="eager")
    for length in (12, 20, 36, 50, 7):
        compiled(torch.ones(length, 5))


def rank_of_choice(scores: Tensor, threshold: Tensor) -> Tensor:
    return (scores >= threshold).sum(-1)  # here: choice


@expects(
    compiles={"rank_of_choice": 3},
    recompiles=(
        Cause(
            code="rank_of_choice",
            kind="size",
            source="scores.size()[0]",
            also=("threshold.size()[0]",),
            expected="3",
            actual="5",
            line="choice",
            shape_driven=True,
        ),
        Cause(
            code="rank_of_choice",
            kind="zero_one",
            source="scores.size()[0]",
            expected=">= 2",
            actual="1",
            line="choice",
            shape_driven=True,
        ),
    ),
)
def single_row_batch_after_the_batch_is_dynamic() -> None:
    compiled = torch.compile(rank_of_choice, backend="eager")
    for batch in (3, 5, 1, 8, 1):
        compiled(torch.randn(batch, 20), torch.zeros(batch, 1))


def ignores_mask(mask: Tensor, pixels: Tensor) -> Tensor:
    return pixels - 1


@expects(compiles={"ignores_mask": 1})
def empty_tensor_that_is_never_read() -> None:
    compiled = torch.compile(ignores_mask, backend="eager")
    compiled(torch.randn(0), torch.randn(3))
    compiled(torch.randn(3), torch.randn(3))


def fold_in_tiles(signal: Tensor) -> Tensor:
    if signal.shape[0] % 6 == 0:  # here: tiles
        return signal.view(-1, 6).mean(1)
    return signal / 2


@expects(
    compiles={"fold_in_tiles": 2},
    recompiles=(
        Cause(
            code="fold_in_tiles",
            kind="divisibility",
            source="signal.size()[0]",
            names=("6",),
            actual="55",
            line="tiles",
            shape_driven=True,
        ),
    ),
)
def branch_on_divisibility() -> None:
    compiled = torch.compile(fold_in_tiles, backend="eager", dynamic=True)
    for length in (54, 66, 55, 61, 120):
        compiled(torch.ones(length))


def normalise(frames: Tensor) -> Tensor:
    return torch.tanh(frames) - 1  # here: frames


@expects(
    compiles={"normalise": 8},
    recompiles=(
        Cause(
            code="normalise",
            kind="size",
            source="frames.size()[0]",
            expected=tuple("3456789"),
            actual=(*"456789", "10"),
            line="frames",
            shape_driven=True,
            count=7,
        ),
    ),
    at_limit=(
        Cause(
            code="normalise",
            kind="size",
            source="frames.size()[0]",
            expected="10",
            actual="11",
            line="frames",
            shape_driven=True,
        ),
    ),
    fallbacks={"recompile_limit": 4},
)
def static_buckets_past_the_limit() -> None:
    compiled = torch.compile(normalise, backend="eager", dynamic=False)
    for frames in range(3, 15):
        compiled(torch.ones(frames, 2))
    compiled(torch.ones(4, 2))


def exactly_seven(grid: Tensor) -> Tensor:
    if grid.size(0) == 7:  # here: seven
        return grid * 3
    return grid - 1


@expects(errors=(Error("constraint_violation", "grid.size()[0]", "seven"),), raised=1)
def dimension_declared_dynamic_is_specialised() -> str | None:
    compiled = torch.compile(exactly_seven, backend="eager")
    grid = torch.ones(7)
    torch._dynamo.mark_dynamic(grid, 0)
    try:
        compiled(grid)
    except Exception as error:  # noqa: BLE001 (its class is torch's own)
        return type(error).__name__
    return None


def square_of_six(grid: Tensor) -> Tensor:
    rows, columns = grid.shape
    if rows > columns:
        return grid + 1
    if rows < columns:
        return grid - 1
    if rows + columns != 12:  # here: twelve
        return grid + 2
    return grid + 3


@expects(
    compiles={"square_of_six": 2},
    recompiles=(
        Cause(
            code="square_of_six",
            kind="shape_relation",
            source="grid.size()[0], grid.size()[1]",
            names=("12",),
            line="twelve",
            shape_driven=True,
        ),
    ),
)
def comparisons_pin_two_marked_dimensions() -> None:
    compiled = torch.compile(square_of_six, backend="eager")
    for side in (6, 9):
        grid = torch.ones(side, side)
        torch._dynamo.mark_dynamic(grid, 0)
        torch._dynamo.mark_dynamic(grid, 1)
        compiled(grid)
