"""Modules that share their code and differ in what they hold."""

from __future__ import annotations

import copy
import weakref

import torch
from torch import Tensor, nn

from ..expectation import Cause, expects


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)
        self.regularise = nn.Dropout(0.2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.regularise(self.project(tokens))  # here: regularise


@expects(
    compiles={"Dropped.forward": 2},
    recompiles=(
        Cause(
            code="Dropped.forward",
            kind="module_training",
            source="self.regularise.training",
            expected="True",
            actual="False",
            line="regularise",
            shape_driven=False,
        ),
    ),
)
def train_and_eval_take_turns() -> None:
    model = Dropped()
    compiled = torch.compile(model, backend="eager")
    tokens = torch.ones(4, 3)
    for _ in range(3):
        model.train()
        compiled(tokens)
        model.eval()
        compiled(tokens)


class RunningMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.register_buffer("sum", torch.zeros(()))

    def forward(self, sample: Tensor) -> Tensor:
        self.seen += 1  # here: counted
        return self.sum + sample.mean()


@expects(
    compiles={"RunningMean.forward": 8},
    recompiles=(
        Cause(
            code="RunningMean.forward",
            kind="module_attr_int",
            source="self.seen",
            expected=tuple("0123456"),
            actual=tuple("1234567"),
            line="counted",
            shape_driven=False,
            count=7,
        ),
    ),
    at_limit=(
        Cause(
            code="RunningMean.forward",
            kind="module_attr_int",
            source="self.seen",
            expected="7",
            actual="8",
            line="counted",
            shape_driven=False,
        ),
    ),
    fallbacks={"recompile_limit": 3},
)
def module_counts_its_calls() -> None:
    compiled = torch.compile(RunningMean(), backend="eager")
    for _ in range(11):
        compiled(torch.ones(2))


class Layered(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.mix = nn.Linear(6, 6)
        self.norm_out = norm

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens + self.norm_out(self.mix(tokens))  # here: norm


@expects(
    compiles={"Layered.forward": 2},
    recompiles=(
        Cause(
            code="Layered.forward",
            kind="module_type",
            source="self.norm_out",
            expected="LayerNorm",
            actual="GroupNorm",
            line="norm",
            shape_driven=False,
        ),
    ),
)
def one_layer_has_another_norm() -> None:
    layers = nn.Sequential(Layered(nn.LayerNorm(6)), Layered(nn.GroupNorm(2, 6)), Layered(nn.LayerNorm(6)))
    for layer in layers:
        layer.compile(backend="eager")
    tokens = torch.ones(3, 6)
    for _ in range(2):
        for layer in layers:
            tokens = layer(tokens).detach()


class CachedLayer(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.query = nn.Linear(5, 5)

    def forward(self, tokens: Tensor, memory: list[Tensor]) -> Tensor:
        return self.query(tokens) - memory[self.depth]  # here: depth


@expects(
    compiles={"CachedLayer.forward": 5},
    recompiles=(
        Cause(
            code="CachedLayer.forward",
            kind="module_attr_int",
            source="self.depth",
            expected=tuple("0123"),
            actual=tuple("1234"),
            line="depth",
            shape_driven=False,
            count=4,
        ),
    ),
)
def layers_know_their_own_depth() -> None:
    layers = [CachedLayer(depth) for depth in range(5)]
    memory = [torch.zeros(5) for _ in layers]
    for layer in layers:
        layer.compile(backend="eager")
    tokens = torch.ones(2, 5)
    for _ in range(2):
        for layer in layers:
            tokens = layer(tokens, memory).detach()


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.project(tokens)


def pass_on(module: nn.Module, args: tuple[Tensor], kwargs: dict[str, Tensor], output: Tensor) -> Tensor:
    return output


@expects(compiles={"Hooked.forward": 1})
def every_layer_has_the_same_hook() -> None:
    layers = nn.ModuleList(Hooked() for _ in range(4))
    for layer in layers:
        layer.project.register_forward_hook(pass_on, with_kwargs=True)
        layer.compile(backend="eager")
    tokens = torch.ones(5, 3)
    for layer in layers:
        tokens = layer(tokens).detach()


class Student(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.project(tokens).tanh()


@expects(compiles={"Student.forward": 1})
def averaged_copy_shares_the_graph() -> None:
    student = Student()
    student.compile(backend="eager")
    tokens = torch.ones(2, 3)
    student(tokens)
    average = copy.deepcopy(student)
    average.compile(backend="eager")
    average(tokens)
    student(tokens)


class Shadowed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(tokens)


@expects(compiles={"Shadowed.forward": 1}, matches_eager=False)
def shadowed_submodule_runs_a_stale_graph() -> bool:
    model = Shadowed()
    compiled = torch.compile(model, backend="eager")
    tokens = torch.ones(3)
    compiled(tokens)
    object.__setattr__(model, "head", nn.Linear(3, 3, bias=False))
    return torch.allclose(compiled(tokens), model(tokens))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.floor = 2.0e-4
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens / (tokens.norm(dim=-1, keepdim=True) + self.floor) * self.gain


class Tower(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.steps = nn.ModuleList(Scaled() for _ in range(depth))

    def forward(self, tokens: Tensor) -> Tensor:
        for step in self.steps:
            tokens = step(tokens)
        return tokens


@expects(compiles={"Tower.forward": 1}, guards_at_least=7 * 3)
def float_attributes_cost_guards_in_every_layer() -> None:
    compiled = torch.compile(Tower(7), backend="eager")
    for _ in range(2):
        compiled(torch.ones(2, 3))


class Adapted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(3, 3)
        self.shrink = nn.Linear(3, 2, bias=False)
        self.expand = nn.Linear(2, 3, bias=False)
        self.strength = {"style": 1.0}

    def forward(self, tokens: Tensor) -> Tensor:
        change = self.expand(self.shrink(tokens))
        strength = self.strength["style"]
        if strength != 1.0:  # here: strength
            change = change * strength
        return self.frozen(tokens) + change


@expects(
    compiles={"Adapted.forward": 2},
    recompiles=(
        Cause(
            code="Adapted.forward",
            kind="python_float",
            source="self.strength['style']",
            expected="1.0",
            actual="0.75",
            line="strength",
            shape_driven=False,
        ),
    ),
)
def adapter_of_strength_one_skips_a_product() -> None:
    model = Adapted()
    compiled = torch.compile(model, backend="eager")
    for strength in (1.0, 0.75, 0.625, 0.375):
        model.strength["style"] = strength
        compiled(torch.ones(2, 3))


class Owner:
    def __init__(self) -> None:
        self.warming_up, self.epoch = True, 0


class Owned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)
        self.owner: Owner | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.head(tokens)
        return tokens if self.owner.warming_up else tokens / 2  # here: proxy


@expects(
    compiles={"Owned.forward": 2},
    recompiles=(
        Cause(
            code="Owned.forward",
            kind="attr_changed",
            source="self.owner.warming_up",
            expected="True",
            actual="False",
            line="proxy",
            shape_driven=False,
        ),
    ),
)
def flag_is_read_through_a_weak_proxy() -> None:
    owner, model = Owner(), Owned()
    model.owner = weakref.proxy(owner)
    compiled = torch.compile(model, backend="eager")
    for warming_up in (True, False):
        owner.warming_up = warming_up
        compiled(torch.ones(2, 3))


class Sampled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.noise_key = 0
        self.head = nn.Linear(2, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(tokens) - self.noise_key % 7  # here: key


@expects(
    compiles={"Sampled.forward": 4},
    recompiles=(
        Cause(
            code="Sampled.forward",
            kind="module_attr_int",
            source="self.noise_key",
            expected=("3458764513820540928", "3458764513820540931", "3458764513820540934"),
            actual=("3458764513820540931", "3458764513820540934", "3458764513820540937"),
            line="key",
            shape_driven=False,
            count=3,
        ),
    ),
)
def attribute_of_nineteen_digits_moves() -> None:
    model = Sampled()
    compiled = torch.compile(model, backend="eager")
    for step in range(4):
        model.noise_key = 3458764513820540928 + 3 * step
        compiled(torch.ones(3, 2))


class Tiles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.edge = 3

    def forward(self, rows: Tensor) -> Tensor:
        return rows.cos() if self.edge * rows.shape[0] == 24 else rows.sin()  # here: product


@expects(
    compiles={"Tiles.forward": 2},
    recompiles=(
        Cause(
            code="Tiles.forward",
            kind="shape_relation",
            source="rows.size()[0]",
            names=("24",),
            line="product",
            shape_driven=True,
        ),
    ),
)
def product_of_a_size_and_a_free_attribute() -> None:
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True):
        compiled = torch.compile(Tiles(), backend="eager", dynamic=True)
        for rows in (8, 10, 13):
            compiled(torch.zeros(rows))
