"""``torch.nn.functional.scaled_dot_product_attention`` as a backend."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from models.attention.geometry import Geometry
    from models.attention.masking import AttentionMetadata

_LOGGER: Final = logging.getLogger(__name__)
_PADDING_RANK: Final = 2


def has_fused_grouped_kernel(query: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Say whether a fused kernel takes grouped heads as they are.

    On CUDA only the flash kernel does, and it takes half precision and no mask; with
    ``enable_gqa`` and neither, torch would fall back to its unfused composite.
    """
    return query.device.type != "cuda" or (mask is None and query.dtype in {torch.bfloat16, torch.float16})


@dataclass(frozen=True)
class SdpaAttention:
    """Attention by torch's own dispatcher.

    Attributes:
        geometry: heads and scale.
        native_groups: whether key and value keep their own number of heads; None means where a
            fused kernel takes them so.
    """

    geometry: Geometry
    native_groups: bool | None = None
    wants_packing = False

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, metadata: AttentionMetadata | None = None
    ) -> torch.Tensor:
        """Attend; shapes as the package says. Rows whose keys are all masked are not defined."""
        mask = None if metadata is None else metadata.effective_mask
        if mask is not None and mask.dim() == _PADDING_RANK:
            # Expanded in full, at no cost: to broadcast it, SDPA would ask whether the sequence has length 1.
            mask = mask[:, None, None, :].expand(-1, self.geometry.heads, query.shape[1], -1)
        enable_gqa = False
        # Branches, not one expression: Dynamo may take the numbers of heads for symbols, what is computed from
        # them is then one too, and SDPA takes no symbolic flag.
        if self.geometry.group > 1:
            if self._is_native(query, mask):
                enable_gqa = True
            else:
                key, value = self._expand(key, value)
        out = functional.scaled_dot_product_attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attn_mask=mask,
            scale=self.geometry.scale,
            enable_gqa=enable_gqa,
        )
        return out.transpose(1, 2)

    def _is_native(self, query: torch.Tensor, mask: torch.Tensor | None) -> bool:
        return has_fused_grouped_kernel(query, mask) if self.native_groups is None else self.native_groups

    def _expand(self, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        group = self.geometry.group
        # A logger call cannot be traced: unguarded, it is a graph break, and an error under fullgraph.
        if not torch.compiler.is_compiling():
            _LOGGER.debug("no fused kernel takes grouped heads here; repeating each %d times", group)
        return key.repeat_interleave(group, dim=2), value.repeat_interleave(group, dim=2)
