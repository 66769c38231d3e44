"""A stand-in for the VAE's decoder: a seeded linear map from latent to image.

There are no weights to be had: the models here are seeded at random, and so would a decoder be. Yet it is images that
people compare, in PSNR. So latents are carried into image space by a map that is the same for everybody and mixes
channels as a decoder does. It is linear, and what it maps lies where nothing is clamped but for a few per cent, so it
neither hides a difference nor adds one. A PSNR taken here is one under this map; it says nothing of what a trained
decoder would make of the same latents.
"""

from __future__ import annotations

import functools
import math
from typing import Final

import torch
from torch.nn import functional

SIDE: Final = 8
"""Pixels that a latent pixel becomes, each way."""

_COLOURS: Final = 3
_RANK: Final = 4
_SEED: Final = 20261130
_GREY: Final = 0.5
_CONTRAST: Final = 0.25


def decode(latent: torch.Tensor, *, std: float = 1.0) -> torch.Tensor:
    """Map a latent to an image: a 1x1 projection to ``3 * 8 * 8`` channels, then a pixel shuffle by 8.

    Args:
        latent: ``[1, C, h, w]``; computed in float32 on its device.
        std: standard deviation of what shall become 0.5 +- 0.25. Two latents that are to be compared get the same.

    Returns:
        ``[3, 8 * h, 8 * w]`` float32 in [0, 1]; what is not finite stays so.

    Raises:
        ValueError: the latent is no batch of one, or ``std`` is not a positive finite number.
    """
    if latent.dim() != _RANK or latent.shape[0] != 1:
        msg = f"a latent is [1, channels, height, width], not {list(latent.shape)}"
        raise ValueError(msg)
    if not (math.isfinite(std) and std > 0):
        msg = f"std is a positive finite number, not {std}"
        raise ValueError(msg)
    weight = _projection(latent.shape[1]).to(latent.device)
    # A product of matrices and no convolution, which cuDNN would compute in TF32 unless told otherwise.
    projected = torch.einsum("oc,bchw->bohw", weight, latent.float())
    image = functional.pixel_shuffle(projected * (_CONTRAST / std) + _GREY, SIDE)[0]
    return image.clamp(0, 1)


def saturated(image: torch.Tensor) -> float:
    """Return which share of an image's values lies at 0 or 1, where differences are lost."""
    return ((image <= 0) | (image >= 1)).float().mean().item()


@functools.lru_cache
def _projection(channels: int) -> torch.Tensor:
    """Return ``[192, channels]`` float32 on the CPU; its rows have norm 1, so that unit variance is kept."""
    generator = torch.Generator().manual_seed(_SEED)
    with torch.inference_mode(mode=False):
        weight = torch.randn(_COLOURS * SIDE * SIDE, channels, generator=generator)
        return functional.normalize(weight, dim=1)
