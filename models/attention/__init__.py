"""Attention backends of the models here: one call, chosen when a model is built.

Every backend takes query ``[B, Sq, H, D]``, key and value ``[B, Sk, KV, D]`` with ``KV`` dividing
``H`` (grouped heads), and what is known about masking, and returns ``[B, Sq, H, D]``. None owns a
parameter, so a model's checkpoint does not depend on the choice.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, get_args

from models.attention.flash import FlashAttention
from models.attention.geometry import Geometry
from models.attention.masking import AttentionMetadata, MaskMode, Packing
from models.attention.sdpa import SdpaAttention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BackendName = Literal["sdpa", "flash", "flash_opaque"]
Backend = SdpaAttention | FlashAttention

BACKENDS: Final[Mapping[str, Callable[[Geometry], Backend]]] = MappingProxyType(
    {
        "sdpa": SdpaAttention,
        "flash": FlashAttention,
        "flash_opaque": lambda geometry: FlashAttention(geometry, opaque_dense=True),
    }
)


def make_attention(name: BackendName, geometry: Geometry) -> Backend:
    """Return the backend called ``name``.

    ``flash_opaque`` is ``flash`` with a dense kernel that has no fake implementation: the second
    kind of graph break that these models were found to have, kept to be looked at.

    Raises:
        ValueError: no backend has that name.
    """
    if name not in BACKENDS:
        msg = f"attention backend {name!r} is none of {', '.join(get_args(BackendName))}"
        raise ValueError(msg)
    return BACKENDS[name](geometry)


__all__ = [
    "BACKENDS",
    "AttentionMetadata",
    "Backend",
    "BackendName",
    "FlashAttention",
    "Geometry",
    "MaskMode",
    "Packing",
    "SdpaAttention",
    "make_attention",
]
