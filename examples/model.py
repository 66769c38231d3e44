"""An ordinary model, as a newcomer has it: no workload, nothing compiled.

    compilescope report examples/model.py --input 'x=f32[batch,seq,16]' --input 'mask=none|bool[batch,seq]'

docs/report.md has every form of input.
"""

import torch
from torch import nn


class Net(nn.Module):
    """A linear layer whose output may be masked."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return (batch, seq, width), zero where ``mask`` (batch, seq) is False."""
        y = self.proj(x)
        return y if mask is None else y.masked_fill(~mask[..., None], 0.0)


def build() -> nn.Module:
    """Return the model."""
    return Net()
