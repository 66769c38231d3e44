"""Numerics presets: which reduction order and which contraction a kernel call uses.

Two kernels that both follow the written formula can differ in the last bit, because a sum of
squares has no fixed order and because ``a * b + c`` may or may not be contracted to one fused
multiply-add. A preset names both choices, so that a caller can ask for an order and be refused,
rather than be given another one silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Numerics:
    """One numerics preset.

    Attributes:
        name: the name a caller passes as ``numerics=``.
        cuda_order: whether the sum of squares follows the order of a CUDA row kernel: 16 lanes,
            each accumulating 8 consecutive elements with fused multiply-adds, then adding lane
            ``i + 1``, ``i + 2``, ``i + 4`` and ``i + 8`` in turn. Otherwise the compiler's own
            tree is used.
        fp_fusion: whether the compiler may contract the products and sums of the formula.
    """

    name: str
    cuda_order: bool
    fp_fusion: bool


FAST: Final = Numerics(name="fast", cuda_order=False, fp_fusion=True)
CUDA_ORDER: Final = Numerics(name="cuda_order", cuda_order=True, fp_fusion=False)

#: The row length that ``cuda_order`` is defined for: 16 lanes of 8 elements.
CUDA_ORDER_HEAD_DIM: Final = 128


def preset(name: str) -> Numerics:
    """Return the preset called ``name``.

    Raises:
        ValueError: if there is no such preset.
    """
    if name == FAST.name:
        return FAST
    if name == CUDA_ORDER.name:
        return CUDA_ORDER
    msg = f"numerics must be {FAST.name!r} or {CUDA_ORDER.name!r}, got {name!r}"
    raise ValueError(msg)
