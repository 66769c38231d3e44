"""Trials of the sentences that name a library's own remedy, or a library's own break."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from .trial import calls, cures, wrong


def experts_of(implementation: str, *, growing: bool = False) -> list[Tensor]:
    transformers: Any = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=11,
        num_experts_per_tok=2,
        num_local_experts=2,
    )
    block = transformers.MixtralForCausalLM(config).eval().model.layers[0].mlp
    block.experts.config._experts_implementation = implementation
    sizes = (4, 6) if growing else (4, 4)
    with torch.no_grad():
        return calls(block, [(torch.ones(1, size, 16),) for size in sizes])


@cures("experts")
def experts_in_a_loop(*, followed: bool) -> object:
    return experts_of("batched_mm" if followed else "eager")


@wrong("experts")
def batched_experts_and_a_growing_text(*, followed: bool) -> object:
    return experts_of("grouped_mm" if followed else "batched_mm", growing=True)


@cures("break_of_library")
def optimizer_is_stepped_in_compiled_code(*, followed: bool) -> object:
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def double(image: Tensor) -> Tensor:
        return image * 2

    def step(image: Tensor) -> Tensor:
        optimizer.step()
        return image * 2

    compiled = torch.compile(double if followed else step, backend="eager")
    out = []
    for _ in range(2):
        layer(torch.ones(2, 3)).sum().backward()
        if followed:
            optimizer.step()
        out.append(compiled(torch.ones(3)))
    return out, layer.weight.detach().clone()


def normalised(rows: tuple[int, ...]) -> list[Tensor]:
    normalization: Any = pytest.importorskip("diffusers.models.normalization")
    norm = normalization.RMSNorm(4, eps=1e-6).eval()
    with torch.no_grad():
        return calls(norm.forward, [(torch.ones(count, 4),) for count in rows], dynamic=True)


@cures("zero_one_of_library")
def rows_of_a_librarys_module_are_padded(*, followed: bool) -> object:
    return normalised((6, 2) if followed else (6, 1))


@wrong("zero_one_of_library")
def rows_of_ones_own_function_grow(*, followed: bool) -> object:
    def doubled(image: Tensor) -> Tensor:
        return image * 2

    return calls(doubled, [(torch.ones(rows, 3),) for rows in ((4, 6) if followed else (4, 8))])
