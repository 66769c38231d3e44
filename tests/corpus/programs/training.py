"""Training loops: checkpoints, optimizers, layer drop, offload hooks, data parallelism."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..expectation import Break, Cause, expects, until
from .process_group import single_process_group

if TYPE_CHECKING:
    from collections.abc import Callable


class Halved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.down(tokens).tanh()
        torch._dynamo.graph_break()  # here: in block
        return self.up(tokens).tanh()


class Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(Halved() for _ in range(3))

    def forward(self, tokens: Tensor) -> Tensor:
        for stage in self.stages:
            tokens = checkpoint(stage, tokens, use_reentrant=False)
        return tokens.mean()


@expects(breaks=(Break("in block", "explicit_graph_break"),), fallbacks={"skipped_frame": 4})
def checkpointed_blocks_break_in_a_loop() -> None:
    compiled = torch.compile(Recomputed(), backend="eager")
    for _ in range(4):
        compiled(torch.ones(3, 3)).backward()


def attend_in_two(signal: Tensor) -> Tensor:
    squashed = signal.tanh()
    torch._dynamo.graph_break()  # here: recomputed
    return squashed.exp()


def around(signal: Tensor) -> Tensor:
    signal = signal / 4
    signal = checkpoint(attend_in_two, signal, use_reentrant=False)  # here: checkpoint
    return signal - 2


@expects(
    compiles={"around": 1, "torch_dynamo_resume_in_around_at_{checkpoint}": 1},
    breaks=(Break("recomputed", "explicit_graph_break"),),
    fallbacks={"skipped_frame": None},
    targets={"attend_in_two": "skipped"},
)
def checkpointed_function_breaks_and_is_never_compiled() -> None:
    compiled = torch.compile(around, backend="eager")
    for _ in range(2):
        compiled(torch.ones(4, requires_grad=True)).sum().backward()


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, tokens: Tensor) -> Tensor:
        for turn in range(4):
            tokens = (tokens - self.gain).sin()
            if turn == 2:
                torch._dynamo.graph_break()  # here: in loop
        return tokens


@expects(breaks=(Break("in loop", "explicit_graph_break"),), fallbacks={"skipped_frame": 6})
def compiled_block_breaks_under_a_checkpoint() -> None:
    compiled = torch.compile(Repeated(), backend="eager")
    for _ in range(3):
        checkpoint(compiled, torch.zeros(3, requires_grad=True), use_reentrant=False).sum().backward()


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
        self.rate = 0.25

    def forward(self, tokens: Tensor) -> Tensor:
        for stage in self.stages:
            if random.uniform(0, 1) >= self.rate:  # noqa: S311 # here: coin
                tokens = stage(tokens)
        return tokens


@expects(
    until(2, 11, breaks=(Break("coin", "builtin"),)),
    breaks=(Break("coin", "data_dependent_branch"),),
    fallbacks={"skipped_frame": 3},
)
def layers_are_dropped_at_random() -> None:
    random.seed(3)
    compiled = torch.compile(Dropping(), backend="eager")
    for _ in range(3):
        compiled(torch.ones(2, 3))


@expects(
    compiles={
        "rate_of_adamw_is_scheduled.<locals>.advance": 1,
        "Optimizer.profile_hook_step.<locals>.wrapper": 1,
        "Adam.step": 2,
    },
    recompiles=(
        Cause(
            code="Adam.step",
            kind="python_float",
            source="self.param_groups[0]['lr']",
            expected="0.25",
            actual="0.125",
            shape_driven=False,
        ),
    ),
    breaks=(Break("step", "skipped_function"),),
    open=True,
)
def rate_of_adamw_is_scheduled() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)

    @torch.compile(backend="eager")
    def advance() -> None:
        optimizer.step()  # here: step

    for _ in range(5):
        model(torch.ones(3, 2)).sum().backward()
        advance()
        scheduler.step()
        optimizer.zero_grad()


class Mover:
    @torch.compiler.disable
    def before(self, module: nn.Module, tokens: Tensor) -> Tensor:
        return tokens.to("cpu")


def attach(module: nn.Module, mover: Mover) -> None:
    module._mover, module._inner = mover, module.forward

    def moved_forward(module: nn.Module, tokens: Tensor) -> Tensor:
        tokens = module._mover.before(module, tokens)  # here: moved
        return module._inner(tokens)

    module.forward = functools.update_wrapper(functools.partial(moved_forward, module), module._inner)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.second(self.first(tokens).tanh())  # here: both


MOVED = "attach.<locals>.moved_forward"
MOVED_ON = "attach.<locals>.torch_dynamo_resume_in_moved_forward_at_{moved}"
PAIR_ON = "Pair.torch_dynamo_resume_in_forward_at_{both}"


@expects(
    compiles={"Pair.forward": 2, MOVED: 4, MOVED_ON: 4, PAIR_ON: 2},
    recompiles=(
        Cause(code=MOVED, kind="requires_grad", source="tokens.requires_grad", shape_driven=False),
        Cause(
            code=MOVED_ON,
            kind="requires_grad",
            source="(the result of `module._mover.before(module, tokens)`).requires_grad",
            shape_driven=False,
        ),
        Cause(
            code="Pair.forward",
            kind="size",
            source="tokens.size()[0]",
            expected="3",
            actual="5",
            shape_driven=True,
        ),
        Cause(code=MOVED, kind="size", source="tokens.size()[0]", expected="3", actual="5", shape_driven=True),
        Cause(
            code=MOVED_ON,
            kind="size",
            source="(the result of `module._mover.before(module, tokens)`).size()[0]",
            expected="3",
            actual="5",
            shape_driven=True,
        ),
        Cause(
            code=PAIR_ON,
            kind="size",
            source="(the result of `self.first(tokens)`).size()[0]",
            expected="3",
            actual="5",
            shape_driven=True,
        ),
        Cause(code=MOVED, kind="size", source="tokens.size()[0]", expected="3", actual="5", shape_driven=True),
        Cause(
            code=MOVED_ON,
            kind="size",
            source="(the result of `module._mover.before(module, tokens)`).size()[0]",
            expected="3",
            actual="5",
            shape_driven=True,
        ),
    ),
    breaks=(Break("moved", "compiler_disable", events=8),),
)
def offload_hook_is_disabled_on_each_submodule() -> None:
    model = Pair()
    for part in (model.first, model.second):
        attach(part, Mover())
    compiled = torch.compile(model, backend="eager")
    for batch in (3, 3, 5):
        compiled(torch.ones(batch, 4))


class Unit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.project(tokens).sigmoid()


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.units = nn.ModuleList([Unit(), Unit()])

    def forward(self, tokens: Tensor) -> Tensor:
        for unit in self.units:
            tokens = unit(tokens)
        return tokens


def bind_early(model: nn.Module) -> None:
    bound: Callable[..., Tensor] = model.forward
    model.forward = functools.update_wrapper(functools.partial(lambda _, *args: bound(*args), model), bound)


def with_compiled_units(model: Stack) -> Stack:
    fast = Stack.__new__(Stack)
    fast.__dict__.update(model.__dict__)
    units = nn.ModuleList(torch.compile(unit, backend="eager") for unit in model.units)
    fast._modules = {"units": units}
    return fast


@expects(targets={"Unit.forward": "never_reached"})
def forward_that_was_bound_earlier_never_calls_the_compiled_blocks() -> None:
    model = Stack()
    bind_early(model)
    fast = with_compiled_units(model)
    for batch in (2, 4):
        fast(torch.ones(batch, 3))


class Replica(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(3, 5), nn.Linear(5, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.narrow(self.wide(tokens).sigmoid())


@expects(
    compiles={
        "wrap_inline.<locals>.inner": 2,
        "contextmanager.<locals>.helper": 1,
        "_GeneratorContextManagerBase.__init__": 1,
        "Replica.forward": 2,
    },
    recompiles=(
        Cause(
            code="wrap_inline.<locals>.inner",
            kind="size",
            source="args[0].size()[0]",
            expected="4",
            actual="6",
            shape_driven=True,
        ),
        Cause(
            code="Replica.forward",
            kind="size",
            source="tokens.size()[0]",
            expected="4",
            actual="6",
            shape_driven=True,
        ),
    ),
    open=True,
)
def data_parallel_model_is_compiled() -> None:
    with single_process_group():
        compiled = torch.compile(nn.parallel.DistributedDataParallel(Replica()), backend="aot_eager")
        for batch in (4, 4, 6):
            compiled(torch.ones(batch, 3)).sum().backward()


@expects(
    compiles={
        "scheduler_steps_inside_the_compiled_function.<locals>.advance": 1,
        "Optimizer.profile_hook_step.<locals>.wrapper": 1,
        "SGD.step": 2,
        "scheduler_steps_inside_the_compiled_function.<locals>.torch_dynamo_resume_in_advance_at_{both steps}": 2,
    },
    recompiles=(
        Cause(
            code="SGD.step",
            kind="python_float",
            source="self.param_groups[0]['lr']",
            expected="0.5",
            actual="0.25",
            shape_driven=False,
        ),
    ),
    breaks=(Break("both steps", "skipped_function", events=2),),
    open=True,
)
def scheduler_steps_inside_the_compiled_function() -> None:
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)

    @torch.compile(backend="eager")
    def advance(signal: Tensor) -> Tensor:
        optimizer.step(), scheduler.step()  # here: both steps
        return signal / 2 - signal.mean()

    for _ in range(3):
        weight.grad = torch.ones(4)
        advance(torch.ones(4))
