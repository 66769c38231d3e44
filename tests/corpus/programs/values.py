"""Arguments that are no tensors."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from ..expectation import Break, Cause, expects, until


def strengthen(latent: Tensor, guidance: float) -> Tensor:
    return latent * guidance


@expects(compiles={"strengthen": 1})
def float_argument_under_dynamic() -> None:
    compiled = torch.compile(strengthen, backend="eager", dynamic=True)
    for guidance in (2.5, 3.5, 4.5):
        compiled(torch.ones(7), guidance)


def descend(weight: Tensor, rate: float, momentum: float) -> Tensor:
    return weight - weight * (rate * momentum)


@expects(
    compiles={"descend": 2},
    recompiles=(Cause(code="descend", kind="python_float", source="rate", shape_driven=False),),
)
def product_of_two_floats_of_which_one_moves() -> None:
    compiled = torch.compile(descend, backend="eager")
    for step in range(1, 6):
        compiled(torch.ones(4), 0.2 * step, 0.75)


def attention(query: Tensor, bias: Tensor | None = None) -> Tensor:
    scores = query @ query.mT
    return scores if bias is None else scores + bias


@expects(
    compiles={"attention": 2},
    recompiles=(Cause(code="attention", kind="none_vs_value", source="bias", shape_driven=False),),
)
def optional_bias_is_given_the_second_time() -> None:
    compiled = torch.compile(attention, backend="eager")
    compiled(torch.ones(3, 4))
    compiled(torch.ones(3, 4), torch.zeros(3, 3))
    compiled(torch.ones(3, 4))


class Settings:
    def __init__(self) -> None:
        self.gain = 0.5
        self.names = {"first": 1}


SETTINGS = Settings()


def with_own_settings(signal: Tensor) -> Tensor:
    own = copy.deepcopy(SETTINGS)  # here: copying
    own.gain = 1.5
    return signal * own.gain


@expects(
    # 2.11 cannot trace copy.deepcopy.
    until(
        2,
        11,
        compiles={"with_own_settings": 1, "torch_dynamo_resume_in_with_own_settings_at_{copying}": 1},
        breaks=(Break("copying", "other"),),
    ),
    compiles={"with_own_settings": 1},
)
def deep_copy_of_a_settings_object() -> None:
    compiled = torch.compile(with_own_settings, backend="eager")
    for _ in range(2):
        compiled(torch.ones(3))
