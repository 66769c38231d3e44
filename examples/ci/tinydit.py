"""A diffusion transformer in small: text refiners without modulation, image blocks with it, one code for both."""

import warnings

import torch
from torch import nn
from torch.nn import functional


class ModulatedNorm(nn.Module):
    """RMSNorm scaled by the timestep embedding; gives the gate of the residual too."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalise ``[batch, tokens, width]``."""
        scale, gate = self.linear(functional.silu(temb))[:, None].chunk(2, dim=-1)
        return self.norm(x) * (1 + scale), torch.tanh(gate)


class PlainNorm(nn.RMSNorm):
    """RMSNorm that knows no timestep; its gate is open."""

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalise ``[batch, tokens, width]``."""
        return super().forward(x), torch.ones_like(temb[:, None])


class TransformerBlock(nn.Module):
    """Attention and a feed-forward layer. The class of ``norm1`` tells a refiner from a layer."""

    def __init__(self, width: int, heads: int, *, modulation: bool) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = ModulatedNorm(width) if modulation else PlainNorm(width, eps=1e-5)
        self.norm2 = nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, temb: torch.Tensor) -> torch.Tensor:
        """Transform ``[batch, tokens, width]`` under ``[batch, width]``."""
        normed, gate = self.norm1(x, temb)
        q, k, v = self.qkv(normed).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        x = x + gate * self.out(attended)
        return x + gate * self.down(functional.silu(self.up(self.norm2(x))))


class TinyDiT(nn.Module):
    """Refines the text, joins it with the image, and transforms both."""

    _repeated_blocks = ("TransformerBlock",)

    def __init__(self, width: int = 32, heads: int = 4, channels: int = 16, text_width: int = 24) -> None:
        super().__init__()
        self.embed_image = nn.Linear(4 * channels, width)
        self.embed_text = nn.Linear(text_width, width)
        self.embed_time = nn.Linear(1, width)
        self.refiner = nn.ModuleList(TransformerBlock(width, heads, modulation=False) for _ in range(2))
        self.layers = nn.ModuleList(TransformerBlock(width, heads, modulation=True) for _ in range(3))
        self.out = nn.Linear(width, 4 * channels)

    def forward(self, latent: torch.Tensor, text: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        """Predict the noise of ``[batch, channels, height, width]``, given ``[batch, tokens, text_width]``."""
        temb = self.embed_time(timestep[:, None])
        image = self.embed_image(functional.pixel_unshuffle(latent, 2).flatten(2).transpose(1, 2))
        if text.shape[1] > 0:  # without a prompt there is nothing to refine, and 0 would get a graph of its own
            text = self.embed_text(text)
            for block in self.refiner:
                text = block(text, temb)
            image = torch.cat([text, image], dim=1)
        for block in self.layers:
            image = block(image, temb)
        tokens = latent.shape[2] // 2 * (latent.shape[3] // 2)
        noise = self.out(image[:, -tokens:]).transpose(1, 2)
        return functional.pixel_shuffle(noise.unflatten(2, (latent.shape[2] // 2, latent.shape[3] // 2)), 2)


def regionally_compile(model: nn.Module, **options: object) -> nn.Module:
    """Compile every block whose class the model names, in place; warn where it names none."""
    names = getattr(model, "_repeated_blocks", ())
    if not names:
        warnings.warn("Regional compilation skipped: the model names no repeated blocks.", stacklevel=2)
    for module in model.modules():
        if type(module).__name__ in names:
            module.forward = torch.compile(module.forward, **options)
    return model


def pooled(text: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Average ``[batch, tokens, width]`` over the tokens that ``mask`` keeps."""
    if torch.any(~mask):
        text = text * mask[..., None]
    return text.sum(dim=1) / mask.sum(dim=1, keepdim=True)
