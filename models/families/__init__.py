"""Families of diffusion transformers: diffusers' own classes, their inputs, and their attention fused."""

from models.families.family import Family
from models.families.registry import FAMILIES, FUSED
from models.families.size import Size
from models.families.workloads import WORKLOADS

flux = WORKLOADS["flux"]
flux2 = WORKLOADS["flux2"]
qwen_image = WORKLOADS["qwen_image"]
z_image = WORKLOADS["z_image"]
hunyuan_video15 = WORKLOADS["hunyuan_video15"]
ovis_image = WORKLOADS["ovis_image"]

__all__ = [
    "FAMILIES",
    "FUSED",
    "WORKLOADS",
    "Family",
    "Size",
    "flux",
    "flux2",
    "hunyuan_video15",
    "ovis_image",
    "qwen_image",
    "z_image",
]
