"""FLUX.1: 19 blocks with two streams, text first, then 38 with one."""

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

    return {"FluxAttnProcessor": TextFirst}


def _launches(config: Mapping[str, Any]) -> Launches:
    return Launches(joint=config["num_layers"], per_stream=config["num_single_layers"])


FLUX: Final = Family(
    class_name="FluxTransformer2DModel",
    blocks=("FluxTransformerBlock", "FluxSingleTransformerBlock"),
    tiny={
        **TINY_JOINT,
        "num_single_layers": 2,
        "joint_attention_dim": 32,
        "pooled_projection_dim": 32,
        "axes_dims_rope": (4, 4, 8),
    },
    full={"guidance_embeds": True},
    inputs=flux_inputs,
    empty_text=True,
    recipe=Recipe(
        processors=_processors,
        blocks={
            "FluxTransformerBlock": Streams(_ORDER),
            "FluxSingleTransformerBlock": Streams(_ORDER),
        },
        sizes={"FluxTransformerBlock": _SIZES, "FluxSingleTransformerBlock": _SIZES},
        frequencies=repeated_pairs,
        launches=_launches,
    ),
)
