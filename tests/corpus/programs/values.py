"""Arguments that are no tensors."""

from __future__ import annotations

import copy
import dataclasses
import enum

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..expectation import Break, Cause, expects, until


def strengthen(latent: Tensor, guidance: float) -> Tensor:
    return latent * guidance


@expects(compiles={"strengthen": 1})
def float_argument_under_dynamic() -> None:
    compiled = torch.compile(strengthen, backend="eager", dynamic=True)
    for guidance in (2.5, 3.5, 4.5):
        compiled(torch.ones(7), guidance)


def descend(weight: Tensor, rate: float, momentum: float) -> Tensor:
    return weight - weight * (rate * momentum)  # here: rate


@expects(
    compiles={"descend": 2},
    recompiles=(
        Cause(
            code="descend",
            kind="python_float",
            source="rate",
            expected="0.2",
            actual="0.4",
            line="rate",
            shape_driven=False,
        ),
    ),
)
def product_of_two_floats_of_which_one_moves() -> None:
    compiled = torch.compile(descend, backend="eager")
    for step in range(1, 6):
        compiled(torch.ones(4), 0.2 * step, 0.75)


def attention(query: Tensor, bias: Tensor | None = None) -> Tensor:
    scores = query @ query.mT
    return scores if bias is None else scores + bias  # here: bias


@expects(
    compiles={"attention": 2},
    recompiles=(
        Cause(code="attention", kind="none_vs_value", source="bias", expected="None", line="bias", shape_driven=False),
    ),
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


class Side(enum.Enum):
    FRONT = 1
    BACK = 2


@dataclasses.dataclass(frozen=True)
class Padding:
    groups: int
    side: Side
    label: str = "train"


def pad_groups(tokens: Tensor, padding: Padding) -> Tensor:
    tokens = tokens.view(padding.groups, -1)  # here: groups
    if padding.side is Side.FRONT:  # here: side
        tokens = tokens.roll(1, 0)
    return tokens - 3


@expects(
    compiles={"pad_groups": 3},
    recompiles=(
        Cause(
            code="pad_groups",
            kind="attr_changed",
            source="padding.side",
            expected="Side.FRONT",
            actual="Side.BACK",
            line="side",
            shape_driven=False,
        ),
        Cause(
            code="pad_groups",
            kind="attr_changed",
            source="padding.groups",
            expected="3",
            actual="6",
            line="groups",
            shape_driven=False,
        ),
    ),
)
def options_are_a_new_frozen_object_at_each_call() -> None:
    compiled = torch.compile(pad_groups, backend="eager")
    tokens = torch.ones(12)
    for padding in (
        Padding(3, Side.FRONT),
        Padding(3, Side.FRONT, "test"),
        Padding(3, Side.BACK),
        Padding(6, Side.BACK),
    ):
        compiled(tokens, padding)


def scale_tree(signal: Tensor, factor: float) -> Tensor:
    tree = pytree.tree_map(lambda leaf: leaf / factor, {"left": (signal, signal), "right": signal})
    return tree["left"][1] - tree["right"]


@expects(
    compiles={"scale_tree": 3},
    recompiles=(
        Cause(
            code="scale_tree",
            kind="python_float",
            source="factor",
            expected="2.0",
            actual="3.0",
            shape_driven=False,
        ),
        Cause(
            code="scale_tree",
            kind="dtype",
            source="signal.dtype",
            expected="torch.float32",
            actual="torch.float64",
            shape_driven=False,
        ),
    ),
)
def float_meets_every_leaf_of_a_tree() -> None:
    compiled = torch.compile(scale_tree, backend="eager")
    signal = torch.ones(2)
    compiled(signal, 2.0)
    compiled(signal, 2.0)
    compiled(signal, 3.0)
    compiled(signal.double(), 5.0)


def mix_table(signal: Tensor, table: np.ndarray, share: float) -> Tensor:  # type: ignore[type-arg]
    return (signal - torch.from_numpy(table)) * share  # here: table


@expects(
    compiles={"mix_table": 4},
    recompiles=(
        Cause(
            code="mix_table",
            kind="dtype",
            source="table.dtype",
            names=("float64", "float32"),
            line="table",
            shape_driven=False,
        ),
        Cause(
            code="mix_table",
            kind="rank",
            source="table.dim()",
            expected="1",
            actual="2",
            line="table",
            shape_driven=True,
        ),
        Cause(
            code="mix_table",
            kind="type",
            source="share",
            names=("float64", "float"),
            line="table",
            shape_driven=False,
        ),
    ),
)
def arrays_and_scalars_are_numpys() -> None:
    compiled = torch.compile(mix_table, backend="eager")
    signal = torch.ones(4)
    compiled(signal, np.ones(4), np.sqrt(0.25))
    compiled(signal, np.ones(4), np.sqrt(0.5))
    compiled(signal, np.ones(4, dtype=np.float32), np.sqrt(0.5))
    compiled(signal, np.ones((3, 4), dtype=np.float32), np.sqrt(0.5))
    compiled(signal, np.ones((3, 4), dtype=np.float32), 0.25)
