"""Qwen-Image: 60 blocks with two streams, text first, rotated by complex numbers of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from models.families.catalogue.shared import TINY_JOINT
from models.families.family import Family
from models.families.recipe import Frequencies, Launches, Processor, Recipe, Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from models.families.size import Size


def _processors() -> Mapping[str, Callable[[Processor, bool], Processor]]:
    from models.families.processors import MaskedTextFirst  # noqa: PLC0415 (imports diffusers)

    return {"QwenDoubleStreamAttnProcessor2_0": MaskedTextFirst}


def _launches(config: Mapping[str, Any]) -> Launches:
    return Launches(joint=config["num_layers"])


def _frequencies(rotary: tuple[torch.Tensor, torch.Tensor], _: tuple[int, ...]) -> Frequencies:
    """Read complex ``(image [S1, R / 2], text [S0, R / 2])``: the model's order is not the sequence's."""
    image, text = rotary
    joint = torch.cat((text, image), dim=0)
    return Frequencies(joint.real, joint.imag)


def _inputs(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hidden_states": size.random(size.batch, size.tokens, config["in_channels"]),
        "encoder_hidden_states": size.random(size.batch, size.text_len, config["joint_attention_dim"]),
        "encoder_hidden_states_mask": torch.ones(size.batch, size.text_len, dtype=torch.long, device=size.device),
        "timestep": size.full(0.5, size.batch),
        "img_shapes": [[(1, size.height, size.width)]] * size.batch,
    }


def _pad(inputs: dict[str, Any], lengths: list[int]) -> dict[str, Any]:
    mask = inputs["encoder_hidden_states_mask"]
    real = torch.arange(mask.shape[1], device=mask.device) < torch.tensor(lengths, device=mask.device)[:, None]
    return {**inputs, "encoder_hidden_states_mask": real.to(mask.dtype)}


QWEN_IMAGE: Final = Family(
    class_name="QwenImageTransformer2DModel",
    blocks=("QwenImageTransformerBlock",),
    tiny={
        **TINY_JOINT,
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 4,
        "joint_attention_dim": 16,
        "guidance_embeds": False,
        "axes_dims_rope": (8, 4, 4),
    },
    inputs=_inputs,
    pad=_pad,
    recipe=Recipe(
        processors=_processors,
        blocks={
            "QwenImageTransformerBlock": Streams(("encoder_hidden_states", "hidden_states")),
        },
        sizes={
            "QwenImageTransformerBlock": {
                "hidden_states": ("batch", "image"),
                "encoder_hidden_states": ("batch", "text"),
                "encoder_hidden_states_mask": ("batch", "text"),
                "temb": ("batch",),
            },
        },
        frequencies=_frequencies,
        launches=_launches,
    ),
)
