"""A branch on a tensor, in the style of flash attention's masked path, and the same branch made on the host.

    compilescope report examples/masked_branch.py

``if mask is not None and torch.any(~mask)`` asks the device for an answer, so tracing stops there in
every graph; a mode that the caller publishes beside the mask is a Python constant, and nothing stops.
"""

from collections.abc import Callable

import torch
from torch import nn

from compilescope import Axis, workload


class Attention(nn.Module):
    """Self-attention that looks into the mask to pick its path."""

    def __init__(self, width: int = 24, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def attend(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Attend with a key mask ``[batch, tokens]``, or with none."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        keys = None if mask is None else mask[:, None, None]
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keys)
        return self.out(out.transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Skip the mask where it masks nothing: the branch that breaks."""
        if mask is not None and torch.any(~mask):
            return self.attend(x, mask)
        return self.attend(x, None)


class PublishedMode(Attention):
    """The same, told by its caller whether the mask masks anything."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, masked: bool = False) -> torch.Tensor:
        """Branch on a Python bool."""
        return self.attend(x, mask if masked else None)


def _inputs(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    return torch.randn(1, tokens, 24, generator=generator), torch.arange(tokens)[None] < max(tokens - 2, 1)


@workload(axes=[Axis("tokens", [5, 9, 13])], targets=[Attention.forward])
def tensor_branch() -> Callable[[int], torch.Tensor]:
    """Three layers that look into the mask."""
    layers = nn.ModuleList(Attention() for _ in range(3)).eval()
    for layer in layers:
        layer.compile(backend="eager", dynamic=True)

    def run(tokens: int) -> torch.Tensor:
        x, mask = _inputs(tokens)
        with torch.inference_mode():
            for layer in layers:
                x = layer(x, mask)
        return x

    return run


@workload(axes=[Axis("tokens", [5, 9, 13])], targets=[PublishedMode.forward])
def published_mode() -> Callable[[int], torch.Tensor]:
    """Three layers whose caller says whether the mask masks anything."""
    layers = nn.ModuleList(PublishedMode() for _ in range(3)).eval()
    for layer in layers:
        layer.compile(backend="eager", dynamic=True, fullgraph=True)

    def run(tokens: int) -> torch.Tensor:
        x, mask = _inputs(tokens)
        masked = not bool(mask.all())
        with torch.inference_mode():
            for layer in layers:
                x = layer(x, mask, masked=masked)
        return x

    return run
