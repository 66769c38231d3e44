"""Blocks that differ in the class of one norm: one recompile, expected, by a type guard.

    compilescope report examples/norm_types.py

A context refiner without modulation and the main layers share ``Block.forward``; their ``norm1`` is of
another class. Two graphs are right, whatever the number of blocks; a third would be news.
"""

from collections.abc import Callable

import torch
from torch import nn

from compilescope import Axis, workload


class ModulatedNorm(nn.Module):
    """RMSNorm scaled by the timestep embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.scale = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> torch.Tensor:
        """Normalise ``[batch, tokens, width]`` and scale by ``[batch, width]``."""
        return self.norm(x) * (1 + self.scale(temb)[:, None])


class PlainNorm(nn.RMSNorm):
    """RMSNorm that ignores the timestep."""

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 (one call for both norms)
        """Normalise ``[batch, tokens, width]``."""
        return super().forward(x)


class Block(nn.Module):
    """A norm and a feed-forward layer."""

    def __init__(self, width: int, *, modulated: bool) -> None:
        super().__init__()
        self.norm1 = ModulatedNorm(width) if modulated else PlainNorm(width)
        self.ffn = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> torch.Tensor:
        """Transform ``[batch, tokens, width]``."""
        return x + self.ffn(self.norm1(x, temb))


@workload(axes=[Axis("text_len", [4, 7, 77]), Axis("tokens", [15, 21])], targets=[Block.forward])
def refiner_and_layers(width: int = 24) -> Callable[[int, int], torch.Tensor]:
    """Two refiner blocks for the text, three modulated ones for text and image."""
    refiner = nn.ModuleList(Block(width, modulated=False) for _ in range(2))
    layers = nn.ModuleList(Block(width, modulated=True) for _ in range(3))
    for block in (*refiner, *layers):
        block.compile(backend="eager", dynamic=True, fullgraph=True)

    def run(text_len: int, tokens: int) -> torch.Tensor:
        with torch.inference_mode():
            text, image, temb = torch.ones(1, text_len, width), torch.ones(1, tokens, width), torch.ones(1, width)
            for block in refiner:
                text = block(text, temb)
            joint = torch.cat([text, image], dim=1)
            for block in layers:
                joint = block(joint, temb)
        return joint

    return run
