"""Ovis-Image: FLUX.1's shape with 6 blocks of two streams, text first, and 27 of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from models.families.catalogue.shared import TINY_JOINT, flux_inputs
from models.families.family import Family
from models.families.recipe import Launches, Processor, Recipe, Streams, repeated_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SIZES: Final = {
    "hidden_states": ("batch", "image"),
    "encoder_hidden_states": ("batch", "text?"),
    "temb": ("batch",),
}
_ORDER: Final = ("encoder_hidden_states", "hidden_states")


def _processors() -> Mapping[str, Callable[[Processor, bool], Processor]]:
    from models.families.processors import TextFirst  # noqa: PLC0415 (imports diffusers)

    return {"OvisImageAttnProcessor": TextFirst}


def _launches(config: Mapping[str, Any]) -> Launches:
    return Launches(joint=config["num_layers"], per_stream=config["num_single_layers"])


OVIS_IMAGE: Final = Family(
    class_name="OvisImageTransformer2DModel",
    blocks=("OvisImageTransformerBlock", "OvisImageSingleTransformerBlock"),
    tiny={
        **TINY_JOINT,
        "out_channels": 4,
        "num_single_layers": 2,
        "joint_attention_dim": 32,
        "axes_dims_rope": (4, 4, 8),
    },
    inputs=flux_inputs,
    empty_text=True,
    recipe=Recipe(
        processors=_processors,
        blocks={
            "OvisImageTransformerBlock": Streams(_ORDER),
            "OvisImageSingleTransformerBlock": Streams(_ORDER),
        },
        sizes={"OvisImageTransformerBlock": _SIZES, "OvisImageSingleTransformerBlock": _SIZES},
        frequencies=repeated_pairs,
        launches=_launches,
    ),
)
