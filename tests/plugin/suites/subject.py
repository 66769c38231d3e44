"""A model with findings, as a workload and for tests: its shapes are static, and it prints."""

from collections.abc import Callable

import torch
from torch import nn

from compilescope import Axis, workload

LENGTHS, BATCHES = (4, 7), (2, 3)


class Block(nn.Module):
    """A layer that prints between its halves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Transform ``[batch, tokens, 8]``."""
        x = self.first(x)
        print("half way")  # noqa: T201 (the graph break)
        return self.second(x)


@workload(axes=[Axis("batch", BATCHES), Axis("tokens", LENGTHS)], targets=[Block.forward])
def subject() -> Callable[..., torch.Tensor]:
    """One block, compiled for every shape anew."""
    block = Block()
    block.compile(backend="eager", dynamic=False)
    return lambda batch, tokens: block(torch.ones(batch, tokens, 8))
