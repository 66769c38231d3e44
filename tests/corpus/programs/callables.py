"""Functions as arguments, and functions made again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..expectation import Cause, expects, needs

if TYPE_CHECKING:
    from collections.abc import Callable


def pool(frames: Tensor, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    return reduce(frames * 3) - 1  # here: reduction


def mean(frames: Tensor) -> Tensor:
    return frames.mean(0)


def total(frames: Tensor) -> Tensor:
    return frames.sum(0)


def largest(frames: Tensor) -> Tensor:
    return frames.amax(0)


def smallest(frames: Tensor) -> Tensor:
    return frames.amin(0)


def spread(frames: Tensor) -> Tensor:
    return frames.std(0)


def middle(frames: Tensor) -> Tensor:
    return frames.median(0).values


def first(frames: Tensor) -> Tensor:
    return frames[0]


def last(frames: Tensor) -> Tensor:
    return frames[-1]


def product(frames: Tensor) -> Tensor:
    return frames.prod(0)


def energy(frames: Tensor) -> Tensor:
    return frames.square().sum(0)


REDUCTIONS = (mean, total, largest, smallest, spread, middle, first, last, product, energy)


@expects(
    compiles={"pool": 8},
    recompiles=(
        Cause(code="pool", kind="function_id", source="reduce", line="reduction", shape_driven=False, count=7),
    ),
    at_limit=(Cause(code="pool", kind="function_id", source="reduce", line="reduction", shape_driven=False, count=2),),
    raised=2,
)
def another_function_at_each_call_past_the_limit_of_a_full_graph() -> list[str]:
    compiled = torch.compile(pool, backend="eager", fullgraph=True)
    errors = []
    for reduce in REDUCTIONS:
        try:
            compiled(torch.ones(4, 2), reduce)
        except Exception as error:  # noqa: BLE001 (its class is torch's own; each call may raise)
            errors.append(type(error).__name__)
    return errors


def brightened(offset: Tensor) -> Callable[[Tensor], Tensor]:
    def adjust(picture: Tensor) -> Tensor:
        return picture + offset

    return adjust


def softened(strength: float) -> Callable[[Tensor], Tensor]:
    def adjust(picture: Tensor) -> Tensor:
        return torch.sigmoid(picture * strength)

    return adjust


def develop(picture: Tensor, on_end: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    if on_end is None:  # here: callback
        return picture / 3
    return on_end(picture)


@expects(
    compiles={"develop": 3},
    recompiles=(
        Cause(
            code="develop",
            kind="function_id",
            source="on_end",
            names=("brightened.<locals>.adjust", "softened.<locals>.adjust"),
            shape_driven=False,
        ),
        Cause(code="develop", kind="none_vs_value", source="on_end", actual="None", shape_driven=False),
    ),
)
def callback_is_replaced_and_then_left_out() -> None:
    compiled = torch.compile(develop, backend="eager")
    picture = torch.ones(5)
    compiled(picture, brightened(torch.ones(5)))
    compiled(picture, brightened(torch.zeros(5)))
    compiled(picture, softened(2.5))
    compiled(picture, None)


def same_document(owners: Tensor, reach: int) -> Callable[[Tensor, Tensor], Tensor]:
    def allowed(query: Tensor, key: Tensor) -> Tensor:
        return (owners[query] == owners[key]) & (query - key < reach)  # here: mask

    return allowed


def block_mask(allowed: Callable[[Tensor, Tensor], Tensor], side: int) -> Tensor:
    positions = torch.arange(side)
    return allowed(positions[:, None], positions[None, :])


@expects(
    compiles={"block_mask": 3},
    recompiles=(
        Cause(
            code="block_mask",
            kind="size",
            source="owners.size()[0]",
            expected="5",
            actual="7",
            line="mask",
            shape_driven=True,
        ),
        Cause(
            code="block_mask",
            kind="closure",
            source="reach",
            expected="3",
            actual="4",
            line="mask",
            shape_driven=False,
        ),
    ),
)
def mask_function_is_made_for_each_batch() -> None:
    compiled = torch.compile(block_mask, backend="eager")
    for length, reach in ((5, 3), (7, 3), (9, 3), (9, 4), (9, 5)):
        compiled(same_document(torch.zeros(length, dtype=torch.long), reach), 5)


OPERATOR = """
import torch
def generated(signal):
    return torch.amax(signal) - {}
"""


@expects(compiles={"generated": 11})
def functions_are_generated_from_text() -> None:
    needs(2, 13, "before, functions of one text are one code object with one limit")
    for number in range(11):
        scope: dict[str, Callable[[Tensor], Tensor]] = {}
        exec(OPERATOR.format(number), scope)  # noqa: S102 (that is the point)
        torch.compile(scope["generated"], backend="eager", fullgraph=True)(torch.ones(2))


def swish(signal: Tensor) -> Tensor:
    return torch.nn.functional.hardswish(signal)


@expects(
    compiles={"swish": 2},
    recompiles=(
        Cause(code="swish", kind="size", source="signal.size()[0]", expected="5", actual="9", shape_driven=True),
    ),
)
def compiled_function_is_compiled_once_more() -> None:
    twice = torch.compile(torch.compile(swish, backend="eager"), backend="eager")
    for length in (5, 9, 13):
        twice(torch.ones(length))
