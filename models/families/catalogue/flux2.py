"""Flux.2: 8 blocks with two streams, text first, then 48 whose projections and feed-forward are one matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from models.families.catalogue.shared import TINY_JOINT
from models.families.family import Family
from models.families.recipe import Launches, Processor, Recipe, Streams, repeated_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from models.families.size import Size

# The model itself concatenates before the blocks of one stream, and gives them no text.
_ORDER: Final = ("encoder_hidden_states", "hidden_states")


def _processors() -> Mapping[str, Callable[[Processor, bool], Processor]]:
    from models.families.processors import ParallelSelf, TextFirst  # noqa: PLC0415 (imports diffusers)

    return {"Flux2AttnProcessor": TextFirst, "Flux2ParallelSelfAttnProcessor": ParallelSelf}


def _launches(config: Mapping[str, Any]) -> Launches:
    return Launches(joint=config["num_layers"], per_stream=config["num_single_layers"])


def _inputs(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    text_ids = torch.zeros(size.text_len, 4, device=size.device)
    text_ids[:, 3] = torch.arange(size.text_len, device=size.device)
    return {
        "hidden_states": size.random(size.batch, size.tokens, config["in_channels"]),
        "encoder_hidden_states": size.random(size.batch, size.text_len, config["joint_attention_dim"]),
        "timestep": size.full(0.5, size.batch),
        "img_ids": size.grid(4)[None].expand(size.batch, -1, -1),
        "txt_ids": text_ids[None].expand(size.batch, -1, -1),
        "guidance": size.full(4.0, size.batch),
    }


FLUX2: Final = Family(
    class_name="Flux2Transformer2DModel",
    blocks=("Flux2TransformerBlock", "Flux2SingleTransformerBlock"),
    tiny={
        **TINY_JOINT,
        "num_single_layers": 2,
        "joint_attention_dim": 32,
        "timestep_guidance_channels": 256,
        "axes_dims_rope": (4, 4, 4, 4),
    },
    inputs=_inputs,
    empty_text=True,
    recipe=Recipe(
        processors=_processors,
        blocks={
            "Flux2TransformerBlock": Streams(_ORDER),
            "Flux2SingleTransformerBlock": Streams(_ORDER),
        },
        sizes={
            "Flux2TransformerBlock": {
                "hidden_states": ("batch", "image"),
                "encoder_hidden_states": ("batch", "text?"),
                "temb_mod_img": ("batch",),
                "temb_mod_txt": ("batch",),
            },
            "Flux2SingleTransformerBlock": {"hidden_states": ("batch", "sequence"), "temb_mod": ("batch",)},
        },
        frequencies=repeated_pairs,
        launches=_launches,
    ),
)
