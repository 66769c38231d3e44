"""HunyuanVideo-1.5: 54 blocks with two streams, video first; only the video is rotated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from fused_ops import Repeats
from models.families.family import Family
from models.families.recipe import Frequencies, Launches, Processor, Recipe, Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from models.families.size import Size


def _processors() -> Mapping[str, Callable[[Processor, bool], Processor]]:
    from models.families.processors import VideoFirst  # noqa: PLC0415 (imports diffusers)

    return {"HunyuanVideo15AttnProcessor2_0": VideoFirst}


def _launches(config: Mapping[str, Any]) -> Launches:
    return Launches(joint=config["num_layers"])


def _frequencies(rotary: tuple[torch.Tensor, torch.Tensor], tokens: tuple[int, ...]) -> Frequencies:
    """Read ``(cos, sin)`` of the video, ``[S0, R]`` with every cosine twice; the text's rows rotate by nothing."""
    cos, sin = rotary
    return Frequencies(cos, sin, Repeats.PAIRS, identity_rows=tokens[1])


def _inputs(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hidden_states": size.random(size.batch, config["in_channels"], size.frames, size.height, size.width),
        "timestep": size.full(0.5, size.batch),
        "encoder_hidden_states": size.random(size.batch, size.text_len, config["text_embed_dim"]),
        "encoder_attention_mask": torch.ones(size.batch, size.text_len, device=size.device),
        "encoder_hidden_states_2": size.random(size.batch, 4, config["text_embed_2_dim"]),
        "encoder_attention_mask_2": torch.ones(size.batch, 4, device=size.device),
        "image_embeds": size.full(0.0, size.batch, 6, config["image_embed_dim"]),
    }


def _pad(inputs: dict[str, Any], lengths: list[int]) -> dict[str, Any]:
    mask = inputs["encoder_attention_mask"]
    real = torch.arange(mask.shape[1], device=mask.device) < torch.tensor(lengths, device=mask.device)[:, None]
    return {**inputs, "encoder_attention_mask": real.to(mask.dtype)}


HUNYUAN_VIDEO15: Final = Family(
    class_name="HunyuanVideo15Transformer3DModel",
    blocks=("HunyuanVideo15PatchEmbed", "HunyuanVideo15TokenRefiner", "HunyuanVideo15TransformerBlock"),
    tiny={
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": 2,
        "attention_head_dim": 8,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "mlp_ratio": 2.0,
        "patch_size": 1,
        "patch_size_t": 1,
        "text_embed_dim": 16,
        "text_embed_2_dim": 8,
        "image_embed_dim": 12,
        "rope_axes_dim": (2, 2, 4),
        "target_size": 16,
        "task_type": "t2v",
    },
    inputs=_inputs,
    pad=_pad,
    recipe=Recipe(
        processors=_processors,
        blocks={
            "HunyuanVideo15TransformerBlock": Streams(
                ("hidden_states", "encoder_hidden_states"),
                rotary="freqs_cis",
            ),
        },
        sizes={
            "HunyuanVideo15TransformerBlock": {
                "hidden_states": ("batch", "image"),
                "encoder_hidden_states": ("batch", "text"),
                "attention_mask": ("batch", "text"),
                "temb": ("batch",),
            },
            # Inductor's convolution asks for hints of the other sizes, which something unknown has not.
            "HunyuanVideo15PatchEmbed": {"hidden_states": ("batch",)},
            # The text's length is left out: diffusers' processor has the mask's rows computed from its elements
            # (attention_processor.py, view(batch_size, attn.heads, -1, ...)), which nothing unknown allows.
            "HunyuanVideo15TokenRefiner": {
                "hidden_states": ("batch",),
                "timestep": ("batch",),
                "attention_mask": ("batch",),
            },
        },
        frequencies=_frequencies,
        launches=_launches,
    ),
)
