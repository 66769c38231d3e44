"""What counts as one thing: names, code objects, closures, shared wrappers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..expectation import Cause, Change, expects

if TYPE_CHECKING:
    from collections.abc import Callable


class Analysis(nn.Module):
    def forward(self, signal: Tensor) -> Tensor:
        return signal.cosh()


class Synthesis(nn.Module):
    def forward(self, signal: Tensor) -> Tensor:
        return signal.sinh()


@expects(compiles={"Analysis.forward": 1, "Synthesis.forward": 1})
def two_classes_each_have_a_forward() -> None:
    analysis = torch.compile(Analysis(), backend="eager")
    synthesis = torch.compile(Synthesis(), backend="eager")
    for _ in range(2):
        synthesis(analysis(torch.ones(5)))


def scaler(factor: int) -> Callable[[Tensor], Tensor]:
    def scale(signal: Tensor) -> Tensor:
        return signal * factor  # here: factor

    return scale


@expects(
    compiles={"scaler.<locals>.scale": 2},
    recompiles=(
        Cause(
            code="scaler.<locals>.scale",
            kind="closure",
            source="factor",
            expected="4",
            actual="6",
            line="factor",
            shape_driven=False,
            beside=(Change(kind="size", source="signal.size()[0]", expected="2", actual="7", line="factor"),),
        ),
    ),
)
def closures_of_one_factory_share_their_code() -> None:
    fourfold = torch.compile(scaler(4), backend="eager")
    sixfold = torch.compile(scaler(6), backend="eager")
    for _ in range(2):
        fourfold(torch.ones(2))  # here: elsewhere
        sixfold(torch.ones(7))


WRAPPER = "wrap_inline.<locals>.inner"
ACTIVATIONS = ("ReLU6", "GELU", "SELU", "Tanh", "LogSigmoid", "ELU", "Softsign", "Hardswish", "Mish")


@expects(
    compiles={WRAPPER: 8},
    recompiles=(
        Cause(
            code=WRAPPER,
            kind="module_type",
            source="fn",
            expected=ACTIVATIONS[:7],
            actual=ACTIVATIONS[1:8],
            shape_driven=False,
            count=7,
        ),
    ),
    at_limit=(
        Cause(
            code=WRAPPER,
            kind="module_type",
            source="fn",
            expected=ACTIVATIONS[7],
            actual=ACTIVATIONS[8],
            shape_driven=False,
        ),
    ),
    fallbacks={"recompile_limit": 1},
)
def library_modules_share_one_wrapper() -> None:
    signal = torch.ones(4)
    for activation in ACTIVATIONS:
        torch.compile(getattr(nn, activation)(), backend="eager")(signal)


@expects(
    compiles={"scheduler_joins_after_the_first_step.<locals>.advance": 2},
    recompiles=(
        Cause(
            code="scheduler_joins_after_the_first_step.<locals>.advance",
            kind="attr_added",
            source="optimizer.step",
            shape_driven=False,
        ),
    ),
    open=True,
)
def scheduler_joins_after_the_first_step() -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimizer = torch.optim.SGD([weight], lr=torch.tensor(0.2), foreach=False)

    def advance() -> None:
        optimizer.step()

    compiled = torch.compile(advance, backend="eager")
    compiled()
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)
    for _ in range(3):
        compiled()
        scheduler.step()
