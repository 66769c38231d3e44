"""Configurations of the transformer, and inputs for any size."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from models.mammoth_moda2.rope import AxisTables, axis_tables
from models.mammoth_moda2.transformer import Transformer2DModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from models.diffusers_dits import Size

_STD: Final = 0.02

TINY: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "hidden_size": 96,
        "num_layers": 2,
        "num_refiner_layers": 1,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "multiple_of": 16,
        "ffn_dim_multiplier": 1.0,
        "axes_dim_rope": (12, 6, 6),
        "axes_lens": (1024, 1024, 1024),
        "text_feat_dim": 64,
    }
)
"""For a CPU: the widths of vLLM-Omni's compile test, and positions enough for 512 text tokens."""

PREVIEW: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "hidden_size": 2520,
        "num_attention_heads": 21,
        "num_kv_heads": 7,
        "multiple_of": 256,
        "ffn_dim_multiplier": 1.0,
        "axes_dim_rope": (40, 40, 40),
        "axes_lens": (10000, 10000, 10000),
        "text_feat_dim": 3584,
    }
)
"""The widths of the Preview release, text states of Qwen2.5-VL-7B.

Its depth is not known; 26 + 3 x 2 is the class's default and makes 3.3 billion parameters, where the
release speaks of 2.
"""

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType({"tiny": TINY, "preview": PREVIEW})


def build(
    size: str = "tiny",
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    **settings: Any,  # noqa: ANN401 (any setting of the class)
) -> Transformer2DModel:
    """Return the model in eval mode with seeded weights, or on ``meta`` without any.

    Weights are normal with standard deviation 0.02, biases zero, norms one.

    Args:
        size: ``tiny`` or ``preview``.
        device: where the weights are made and stay.
        dtype: of the weights.
        seed: of the weights, which also depend on the device type.
        settings: replace those of the configuration.

    Raises:
        ValueError: ``size`` is neither.
    """
    if size not in PRESETS:
        msg = f"size is {' or '.join(PRESETS)}, not {size!r}"
        raise ValueError(msg)
    with torch.device(device):
        model: Transformer2DModel = Transformer2DModel(**{**PRESETS[size], **settings})
    if dtype != torch.float32:
        nn.Module.to(model, dtype)
    if device != "meta":
        _initialise(model, torch.Generator(device).manual_seed(seed))
    model.eval()
    return model


def _initialise(model: nn.Module, generator: torch.Generator) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=_STD, generator=generator)
        for module in model.modules():
            bias = getattr(module, "bias", None)
            if isinstance(bias, nn.Parameter):
                bias.zero_()


def tables(model: Transformer2DModel, device: torch.device | str = "cpu") -> AxisTables:
    """Compute the rotary tables that a pipeline hands to every forward of ``model``."""
    config: Mapping[str, Any] = model.config
    return axis_tables(config["axes_dim_rope"], config["axes_lens"], device=device)


def inputs(model: Transformer2DModel, size: Size, freqs_cis: AxisTables) -> dict[str, Any]:
    """Return the arguments of one forward at ``size``, whose height and width count patches."""
    config: Mapping[str, Any] = model.config
    patch = config["patch_size"]
    return {
        "hidden_states": size.random(size.batch, config["in_channels"], patch * size.height, patch * size.width),
        "timestep": size.full(500.0, size.batch),
        "text_hidden_states": size.random(size.batch, size.text_len, config["text_feat_dim"]),
        "freqs_cis": freqs_cis,
    }
