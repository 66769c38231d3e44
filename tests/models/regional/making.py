"""A small model with two kinds of block, and stand-ins for a backend and for ``torch.compile``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(x)


class Single(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.linear(x))


class Model(torch.nn.Module):
    def __init__(self, *blocks: torch.nn.Module) -> None:
        super().__init__()
        self._repeated_blocks: Any = ["Block", "Single"]
        self.embed = torch.nn.Linear(4, 4)
        self.blocks = torch.nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return x


class Counting:
    """A backend that runs the graph as it is, and counts."""

    def __init__(self) -> None:
        self.graphs = self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor], **kwargs: object) -> Callable[..., Any]:
        self.graphs += 1

        def run(*args: torch.Tensor) -> Any:
            self.runs += 1
            return graph(*args)

        return run


class Calls:
    """Stands in for torch.compile: keeps its keyword arguments, and takes entries out of the options as it does."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.kwargs: list[dict[str, Any]] = []
        self.fail_at = fail_at

    def __call__(self, function: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
        if len(self.kwargs) == self.fail_at:
            msg = "cannot be built"
            raise RuntimeError(msg)
        self.kwargs.append({**kwargs, "options": dict(kwargs["options"])} if "options" in kwargs else kwargs)
        kwargs.get("options", {}).clear()
        return functools.partial(function)


def build() -> Model:
    torch.manual_seed(0)
    return Model(Block(), Block(), Block(), Single(), Single()).eval()


def linear_input() -> torch.Tensor:
    return torch.linspace(-1, 1, 12).reshape(3, 4)


def run(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(linear_input())


def changed(model: torch.nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if "forward" in vars(module)]
