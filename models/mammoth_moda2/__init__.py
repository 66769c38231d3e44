"""MammothModa2's diffusion transformer, built from diffusers' parts."""

from models.mammoth_moda2.block import AttnProcessor, TransformerBlock
from models.mammoth_moda2.free_sizes import leave_sizes_free
from models.mammoth_moda2.presets import PRESETS, build, inputs, tables
from models.mammoth_moda2.rope import AxisTables, Grid, Rotary, axis_tables
from models.mammoth_moda2.transformer import Transformer2DModel

__all__ = [
    "PRESETS",
    "AttnProcessor",
    "AxisTables",
    "Grid",
    "Rotary",
    "Transformer2DModel",
    "TransformerBlock",
    "axis_tables",
    "build",
    "inputs",
    "leave_sizes_free",
    "tables",
]
