"""Modules that share their code and differ in what they hold."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from ..expectation import Cause, expects


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)
        self.regularise = nn.Dropout(0.2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.regularise(self.project(tokens))


@expects(
    compiles={"Dropped.forward": 2},
    recompiles=(
        Cause(code="Dropped.forward", kind="module_training", source="self.regularise.training", shape_driven=False),
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
        self.seen += 1
        return self.sum + sample.mean()


@expects(
    compiles={"RunningMean.forward": 8},
    recompiles=(
        Cause(code="RunningMean.forward", kind="module_attr_int", source="self.seen", shape_driven=False, count=7),
    ),
    limit=True,
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
        return tokens + self.norm_out(self.mix(tokens))


@expects(
    compiles={"Layered.forward": 2},
    recompiles=(Cause(code="Layered.forward", kind="module_type", source="self.norm_out", shape_driven=False),),
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
        return self.query(tokens) - memory[self.depth]


@expects(
    compiles={"CachedLayer.forward": 5},
    recompiles=(
        Cause(code="CachedLayer.forward", kind="module_attr_int", source="self.depth", shape_driven=False, count=4),
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
