"""Fused RMSNorm, rotary embedding and concatenation for attention inputs, in Triton.

Without Triton, or where the kernels cannot run, the same functions compute the same values with
eager torch; :func:`decide` says which it is and why.
"""

from fused_ops.counting import LaunchCounts, count_launches
from fused_ops.gates import MIN_TOKENS_VARIABLE, Call, Decision, Gate, Path, Reason, decide, min_tokens
from fused_ops.numerics import CUDA_ORDER, FAST, Numerics, preset
from fused_ops.ops import joint_qkv_norm_rope, qk_norm_rope
from fused_ops.reference import Rounding
from fused_ops.tables import Packed, Repeats, pack_table, rope_table, rope_table_from_complex

__all__ = [
    "CUDA_ORDER",
    "FAST",
    "MIN_TOKENS_VARIABLE",
    "Call",
    "Decision",
    "Gate",
    "LaunchCounts",
    "Numerics",
    "Packed",
    "Path",
    "Reason",
    "Repeats",
    "Rounding",
    "count_launches",
    "decide",
    "joint_qkv_norm_rope",
    "min_tokens",
    "pack_table",
    "preset",
    "qk_norm_rope",
    "rope_table",
    "rope_table_from_complex",
]
