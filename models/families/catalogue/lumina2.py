"""Lumina2, which nothing here fuses: its heads are grouped, and it is swept as diffusers has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from models.families.family import Family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from models.families.size import Size


def _inputs(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    patch = config["patch_size"]
    latent = (config["in_channels"], patch * size.height, patch * size.width)
    return {
        "hidden_states": size.random(size.batch, *latent),
        "timestep": size.full(0.5, size.batch),
        "encoder_hidden_states": size.random(size.batch, size.text_len, config["cap_feat_dim"]),
        "encoder_attention_mask": torch.ones(size.batch, size.text_len, dtype=torch.bool, device=size.device),
    }


LUMINA2: Final = Family(
    class_name="Lumina2Transformer2DModel",
    blocks=("Lumina2TransformerBlock",),
    tiny={
        "sample_size": 16,
        "patch_size": 2,
        "in_channels": 4,
        "hidden_size": 24,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "num_attention_heads": 3,
        "num_kv_heads": 1,
        "multiple_of": 2,
        "axes_dim_rope": (4, 2, 2),
        "axes_lens": (128, 128, 128),
        "cap_feat_dim": 32,
    },
    inputs=_inputs,
    declare_blocks=True,
)
