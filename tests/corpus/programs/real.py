"""What models of diffusers and transformers, and the decorators around them, met in real use."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..expectation import Cause, expects

if TYPE_CHECKING:
    from collections.abc import Callable


def scales_adapters(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(forward)
    def wrapper(self: nn.Module, *args: Tensor, **kwargs: Tensor) -> Tensor:
        return forward(self, *args, **kwargs)

    return wrapper


class FastProcessor:
    def __call__(self, tokens: Tensor) -> Tensor:
        return tokens.tanh()


class PlainProcessor:
    def __call__(self, tokens: Tensor) -> Tensor:
        return tokens.sigmoid()


class Encoding(nn.Module):
    @scales_adapters
    def forward(self, tokens: Tensor) -> Tensor:
        return tokens - 1


class Denoising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.processors: list[Callable[[Tensor], Tensor]] = [FastProcessor() for _ in range(5)]

    @scales_adapters
    def forward(self, tokens: Tensor) -> Tensor:
        for processor in self.processors:
            tokens = processor(tokens)  # here: processor
        return tokens


SHARED = "scales_adapters.<locals>.wrapper"


@expects(
    compiles={SHARED: 3},
    recompiles=(
        Cause(code=SHARED, kind="module_type", source="self", names=("Encoding", "Denoising"), shape_driven=False),
        Cause(
            code=SHARED,
            kind="type",
            source="self.processors[0]",
            also=tuple(f"self.processors[{index}]" for index in range(1, 5)),
            names=("FastProcessor", "PlainProcessor"),
            line="processor",
            places=5,
            shape_driven=False,
        ),
    ),
)
def every_processor_of_one_of_two_models_is_replaced() -> None:
    encoding, denoising = Encoding(), Denoising()
    for model in (encoding, denoising):
        model.compile(backend="eager")
    tokens = torch.ones(4)
    encoding(tokens)
    denoising(tokens)
    denoising.processors = [PlainProcessor() for _ in range(5)]
    denoising(tokens)


class LayerCache:
    def __init__(self) -> None:
        self.filled = False
        self.keys: Tensor | None = None

    def extend(self, new: Tensor) -> Tensor:
        if not self.filled:  # here: filled
            self.keys, self.filled = new, True
        else:
            self.keys = torch.cat([self.keys, new], 1)  # here: extended
        return self.keys


def decode(tokens: Tensor, caches: list[LayerCache]) -> Tensor:
    for cache in caches:
        tokens = tokens - cache.extend(tokens).mean(1, keepdim=True)
    return tokens
