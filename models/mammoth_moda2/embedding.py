"""What stands around the blocks: timestep and caption embedding, patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from diffusers.models.embeddings import TimestepEmbedding, Timesteps
from diffusers.models.normalization import RMSNorm
from torch import nn

if TYPE_CHECKING:
    from models.mammoth_moda2.rope import Grid

FREQUENCIES = 256
WIDEST_CONDITION = 1024


class TimestepCaptionEmbedding(nn.Module):
    """Embed the timestep and project the text into the model's width.

    Args:
        hidden_size: width of the model.
        text_feat_dim: width of the text encoder's states.
        norm_eps: of the text's RMSNorm.
        timestep_scale: what a timestep is multiplied by.
    """

    def __init__(self, hidden_size: int, text_feat_dim: int, norm_eps: float, timestep_scale: float) -> None:
        super().__init__()
        self.time_proj = Timesteps(
            FREQUENCIES,
            flip_sin_to_cos=True,
            downscale_freq_shift=0.0,
            scale=timestep_scale,  # type: ignore[arg-type]  # a factor of angles; diffusers writes int
        )
        self.timestep_embedder = TimestepEmbedding(FREQUENCIES, min(hidden_size, WIDEST_CONDITION))
        self.caption_embedder = nn.Sequential(
            RMSNorm(text_feat_dim, eps=norm_eps), nn.Linear(text_feat_dim, hidden_size, bias=True)
        )

    def forward(self, timestep: torch.Tensor, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Embed timesteps ``[B]`` and text ``[B, T, text_feat_dim]``.

        Returns:
            ``[B, min(hidden_size, 1024)]`` and ``[B, T, hidden_size]``, both in the dtype of ``text``.
        """
        condition: torch.Tensor = self.timestep_embedder(self.time_proj(timestep).to(text.dtype))
        caption: torch.Tensor = self.caption_embedder(text)
        return condition, caption


def patchify(latent: torch.Tensor, patch: int) -> torch.Tensor:
    """Cut ``[B, C, H, W]`` into ``[B, H/p * W/p, p * p * C]``, rows first, channels innermost."""
    batch, channels, height, width = latent.shape
    tiles = latent.reshape(batch, channels, height // patch, patch, width // patch, patch)
    return tiles.permute(0, 2, 4, 3, 5, 1).reshape(batch, -1, patch * patch * channels)


def unpatchify(tokens: torch.Tensor, grid: Grid, patch: int) -> torch.Tensor:
    """Put ``[B, h * w, p * p * C]`` together again as ``[B, C, h * p, w * p]``."""
    tiles = tokens.reshape(tokens.shape[0], grid.height, grid.width, patch, patch, -1)
    return tiles.permute(0, 5, 1, 3, 2, 4).reshape(tokens.shape[0], -1, grid.height * patch, grid.width * patch)
