"""Seven of diffusers' diffusion transformers: tiny and full-size configurations, and inputs at any size.

No weights are downloaded: a model is its class with seeded random weights, or on ``device="meta"``
without any. Tiny widths are chosen so that no token count of the usual sweeps equals a width, which
would make that dimension static.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import torch

Inputs = Callable[["Size"], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Size:
    """What a request varies.

    Attributes:
        height, width: of the latent, in tokens (patches).
        text_len: text tokens.
        batch: images at once.
        device: where the inputs live.
        dtype: of floating inputs.
    """

    height: int
    width: int
    text_len: int
    batch: int = 1
    device: str = "cpu"
    dtype: torch.dtype = torch.float32

    @property
    def tokens(self) -> int:
        """Image tokens."""
        return self.height * self.width

    def random(self, *shape: int) -> torch.Tensor:
        """Return seeded normal values of ``shape``."""
        if self.device == "meta":
            return torch.empty(*shape, device="meta", dtype=self.dtype)
        generator = torch.Generator().manual_seed(1)
        return torch.randn(*shape, generator=generator).to(device=self.device, dtype=self.dtype)

    def full(self, value: float, *shape: int) -> torch.Tensor:
        """Return a constant of ``shape``."""
        return torch.full(shape, value, device=self.device, dtype=self.dtype)

    def grid(self, axes: int) -> torch.Tensor:
        """Return position ids ``[tokens, axes]``: row in axis 1, column in axis 2, zero elsewhere."""
        ids = torch.zeros(self.height, self.width, axes, device=self.device)
        ids[..., 1] += torch.arange(self.height, device=self.device)[:, None]
        ids[..., 2] += torch.arange(self.width, device=self.device)[None]
        return ids.reshape(self.tokens, axes)


@dataclass(frozen=True, slots=True)
class Dit:
    """One model family.

    Attributes:
        class_name: of the diffusers class.
        blocks: names of the classes that are compiled one by one.
        tiny: configuration for a CPU.
        inputs: keyword arguments of ``forward`` at a size, for a configuration.
        full: configuration of the released model; its parameters are counted in the tests.
        empty_text: whether the model itself accepts ``text_len=0``.
        declare_blocks: whether diffusers leaves ``_repeated_blocks`` empty, so that it is set here.
    """

    class_name: str
    blocks: tuple[str, ...]
    tiny: Mapping[str, Any]
    inputs: Callable[[Size, Mapping[str, Any]], dict[str, Any]]
    full: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    empty_text: bool = False
    declare_blocks: bool = False

    def build(self, *, size: str = "tiny", device: str = "cpu", **tiny: Any) -> torch.nn.Module:  # noqa: ANN401 (any setting)
        """Return the model in eval mode with seeded float32 weights.

        Args:
            size: ``tiny`` or ``full``.
            device: ``meta`` builds without weights.
            tiny: settings that replace those of the tiny configuration; the full one stands as released.

        Raises:
            ValueError: ``size`` is neither.
        """
        import diffusers  # noqa: PLC0415 (slow to import, and an optional dependency)

        if size not in ("tiny", "full"):
            msg = f"size is tiny or full, not {size!r}"
            raise ValueError(msg)
        torch.manual_seed(0)
        with torch.device(device):
            settings = {**self.tiny, **tiny} if size == "tiny" else self.full
            model: torch.nn.Module = getattr(diffusers, self.class_name)(**settings)
        if self.declare_blocks:
            # What compile_repeated_blocks reads.
            model._repeated_blocks = list(self.blocks)  # type: ignore[assignment]  # noqa: SLF001
        return model.eval()

    def call(self, model: torch.nn.Module, size: Size) -> torch.Tensor:
        """Run the model at ``size`` without gradients and return its output tensor or first list item."""
        config: Mapping[str, Any] = model.config  # type: ignore[assignment]
        with torch.no_grad():
            output: torch.Tensor | list[torch.Tensor] = model(**self.inputs(size, config), return_dict=False)[0]
        return output[0] if isinstance(output, list) else output


def _flux(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
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


def _flux2(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
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


def _qwen_image(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hidden_states": size.random(size.batch, size.tokens, config["in_channels"]),
        "encoder_hidden_states": size.random(size.batch, size.text_len, config["joint_attention_dim"]),
        "encoder_hidden_states_mask": torch.ones(size.batch, size.text_len, dtype=torch.long, device=size.device),
        "timestep": size.full(0.5, size.batch),
        "img_shapes": [[(1, size.height, size.width)]] * size.batch,
    }


def _z_image(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    patch = config["all_patch_size"][0]
    latent = (config["in_channels"], 1, patch * size.height, patch * size.width)
    return {
        "x": [size.random(*latent) for _ in range(size.batch)],
        "t": size.full(0.5, size.batch),
        "cap_feats": [size.random(size.text_len, config["cap_feat_dim"]) for _ in range(size.batch)],
    }


def _hunyuan_video15(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hidden_states": size.random(size.batch, config["in_channels"], 1, size.height, size.width),
        "timestep": size.full(0.5, size.batch),
        "encoder_hidden_states": size.random(size.batch, size.text_len, config["text_embed_dim"]),
        "encoder_attention_mask": torch.ones(size.batch, size.text_len, device=size.device),
        "encoder_hidden_states_2": size.random(size.batch, 4, config["text_embed_2_dim"]),
        "encoder_attention_mask_2": torch.ones(size.batch, 4, device=size.device),
        "image_embeds": size.full(0.0, size.batch, 6, config["image_embed_dim"]),
    }


def _lumina2(size: Size, config: Mapping[str, Any]) -> dict[str, Any]:
    patch = config["patch_size"]
    latent = (config["in_channels"], patch * size.height, patch * size.width)
    return {
        "hidden_states": size.random(size.batch, *latent),
        "timestep": size.full(0.5, size.batch),
        "encoder_hidden_states": size.random(size.batch, size.text_len, config["cap_feat_dim"]),
        "encoder_attention_mask": torch.ones(size.batch, size.text_len, dtype=torch.bool, device=size.device),
    }


_JOINT: Final = {"patch_size": 1, "in_channels": 4, "num_layers": 2, "attention_head_dim": 16, "num_attention_heads": 2}

DITS: Final[Mapping[str, Dit]] = MappingProxyType(
    {
        "flux": Dit(
            class_name="FluxTransformer2DModel",
            blocks=("FluxTransformerBlock", "FluxSingleTransformerBlock"),
            tiny=_JOINT
            | {
                "num_single_layers": 2,
                "joint_attention_dim": 32,
                "pooled_projection_dim": 32,
                "axes_dims_rope": (4, 4, 8),
            },
            full={"guidance_embeds": True},
            inputs=_flux,
            empty_text=True,
        ),
        "flux2": Dit(
            class_name="Flux2Transformer2DModel",
            blocks=("Flux2TransformerBlock", "Flux2SingleTransformerBlock"),
            tiny=_JOINT
            | {
                "num_single_layers": 2,
                "joint_attention_dim": 32,
                "timestep_guidance_channels": 256,
                "axes_dims_rope": (4, 4, 4, 4),
            },
            inputs=_flux2,
            empty_text=True,
        ),
        "qwen_image": Dit(
            class_name="QwenImageTransformer2DModel",
            blocks=("QwenImageTransformerBlock",),
            tiny=_JOINT
            | {
                "patch_size": 2,
                "in_channels": 16,
                "out_channels": 4,
                "joint_attention_dim": 16,
                "guidance_embeds": False,
                "axes_dims_rope": (8, 4, 4),
            },
            inputs=_qwen_image,
        ),
        "z_image": Dit(
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
            inputs=_z_image,
        ),
        "hunyuan_video15": Dit(
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
            inputs=_hunyuan_video15,
        ),
        "ovis_image": Dit(
            class_name="OvisImageTransformer2DModel",
            blocks=("OvisImageTransformerBlock", "OvisImageSingleTransformerBlock"),
            tiny=_JOINT
            | {"out_channels": 4, "num_single_layers": 2, "joint_attention_dim": 32, "axes_dims_rope": (4, 4, 8)},
            inputs=_flux,
            empty_text=True,
        ),
        "lumina2": Dit(
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
            inputs=_lumina2,
            declare_blocks=True,
        ),
    }
)
"""The families by name."""
