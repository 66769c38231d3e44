"""Families of diffusion transformers: diffusers' own classes, their inputs, and their attention fused."""

from models.families.family import Family
from models.families.registry import FAMILIES, FUSED
from models.families.size import Size

__all__ = ["FAMILIES", "FUSED", "Family", "Size"]
