"""What several families have in common."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from models.families.size import Size

TINY_JOINT: Final[Mapping[str, Any]] = MappingProxyType(
    {"patch_size": 1, "in_channels": 4, "num_layers": 2, "attention_head_dim": 16, "num_attention_heads": 2}
)
"""Tiny widths of the models with a text and an image stream; no token count of the usual sweeps equals one."""


def flux_inputs(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of FLUX.1, and of Ovis-Image, which is built like it."""
    inputs = {
        "hidden_states": size.random(size.batch, size.tokens, config["in_channels"]),
        "encoder_hidden_states": size.random(size.batch, size.text_len, config["joint_attention_dim"]),
        "timestep": size.full(0.5, size.batch),
        "img_ids": size.grid(3),
        "txt_ids": torch.zeros(size.text_len, 3, device=size.device),
    }
    if "pooled_projection_dim" in config:
        inputs["pooled_projections"] = size.random(size.batch, config["pooled_projection_dim"])
    if config.get("guidance_embeds"):
        inputs["guidance"] = size.full(3.5, size.batch)
    return inputs
