"""Z-Image: 30 blocks over one sequence, and two refiners of two blocks for image and caption before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from models.families.family import Family
from models.families.recipe import Frequencies, Launches, Processor, Recipe, Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from models.families.size import Size


def _processors() -> Mapping[str, Callable[[Processor, bool], Processor]]:
    from models.families.processors import SingleStream  # noqa: PLC0415 (imports diffusers)

    return {"ZSingleStreamAttnProcessor": SingleStream}


def _launches(config: Mapping[str, Any]) -> Launches:
    return Launches(per_stream=config["n_layers"] + 2 * config["n_refiner_layers"])


def _frequencies(rotary: torch.Tensor, _: tuple[int, ...]) -> Frequencies:
    """Read complex ``[B, S, R / 2]``; padding tokens have zeros."""
    return Frequencies(rotary.real, rotary.imag)


def _inputs(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    patch = config["all_patch_size"][0]
    latent = (config["in_channels"], 1, patch * size.height, patch * size.width)
    return {
        "x": [size.random(*latent) for _ in range(size.batch)],
        "t": size.full(0.5, size.batch),
        "cap_feats": [size.random(size.text_len, config["cap_feat_dim"]) for _ in range(size.batch)],
    }


def _pad(inputs: dict[str, Any], lengths: list[int]) -> dict[str, Any]:
    """Give captions of these lengths: the model itself pads them, and masks what it padded."""
    captions = [caption[:length] for caption, length in zip(inputs["cap_feats"], lengths, strict=True)]
    return {**inputs, "cap_feats": captions}


Z_IMAGE: Final = Family(
    class_name="ZImageTransformer2DModel",
    blocks=("ZImageTransformerBlock",),
    tiny={
        "all_patch_size": (2,),
        "all_f_patch_size": (1,),
        "in_channels": 16,
        "dim": 48,
        "n_layers": 2,
        "n_refiner_layers": 1,
        "n_heads": 2,
        "n_kv_heads": 2,
        "qk_norm": True,
        "cap_feat_dim": 16,
        "rope_theta": 256.0,
        "t_scale": 1000.0,
        "axes_dims": [8, 8, 8],
        "axes_lens": [256, 64, 64],
    },
    inputs=_inputs,
    pad=_pad,
    recipe=Recipe(
        processors=_processors,
        blocks={
            "ZImageTransformerBlock": Streams(
                ("x",),
                rotary="freqs_cis",
                attention="attention",
            ),
        },
        sizes={
            "ZImageTransformerBlock": {
                "x": ("batch", "sequence"),
                "attn_mask": ("batch", "sequence"),
                "adaln_input": ("batch",),
            },
        },
        frequencies=_frequencies,
        launches=_launches,
    ),
)
