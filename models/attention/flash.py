"""Flash attention as a backend: packed, masked and dense paths over variable-length attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from models.attention.masking import AttentionMetadata, Packing
from models.attention.sdpa import SdpaAttention
from models.attention.varlen import dense_attention, even_boundaries, opaque_attention, varlen_attention

if TYPE_CHECKING:
    from models.attention.geometry import Geometry

_PADDING_RANK: Final = 2


@dataclass(frozen=True)
class FlashAttention:
    """Attention that skips masked tokens instead of computing and discarding them.

    Attributes:
        geometry: heads and scale.
        opaque_dense: compute unmasked calls by an op without a fake implementation.
    """

    geometry: Geometry
    opaque_dense: bool = False
    wants_packing = True

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, metadata: AttentionMetadata | None = None
    ) -> torch.Tensor:
        """Attend; shapes as the package says. Rows of masked queries are zero.

        float32 on CUDA goes to SDPA: the flash kernel has none.

        Raises:
            ValueError: the mask is not one of padding, ``[B, Sk]``.
        """
        if query.device.type == "cuda" and query.dtype == torch.float32:
            return SdpaAttention(self.geometry)(query, key, value, metadata)
        if metadata is None or metadata.effective_mask is None:
            return self._dense(query, key, value)
        if metadata.packing is not None:
            return self._packed(query, key, value, metadata.packing)
        if metadata.mode is None:
            # Nobody said whether the mask masks anything. Its values stand on the device: eager waits
            # for them, and a graph ends here, since one graph cannot hold both branches.
            if torch.any(~metadata.effective_mask):
                return self._masked(query, key, value, metadata.effective_mask)
            return self._dense(query, key, value)
        return self._masked(query, key, value, metadata.effective_mask)

    def _dense(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        attend = opaque_attention if self.opaque_dense else dense_attention
        return attend(query, key, value, self.geometry.scale)

    def _masked(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Find the unmasked tokens on the device. ``nonzero`` has a size that no graph knows before it runs."""
        if mask.dim() != _PADDING_RANK:
            msg = f"flash attention masks padding, [batch, keys]; got a mask of shape {list(mask.shape)}"
            raise ValueError(msg)
        lengths = mask.sum(1, dtype=torch.int32)
        boundaries = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
        packing = Packing(mask.flatten().nonzero().squeeze(-1), boundaries)
        if query.shape[1] == key.shape[1]:
            return self._packed(query, key, value, packing)
        samples, queries = query.shape[:2]
        out = varlen_attention(
            query.flatten(0, 1),
            key.flatten(0, 1)[packing.indices],
            value.flatten(0, 1)[packing.indices],
            even_boundaries(samples, queries, query.device),
            packing.boundaries,
            longest_query=queries,
            longest_key=key.shape[1],
            scale=self.geometry.scale,
        )
        return out.view(samples, queries, *out.shape[1:])

    def _packed(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Attend among the tokens of ``packing`` and put them back, zeros between them."""
        samples, padded = query.shape[:2]
        tokens = varlen_attention(
            query.flatten(0, 1)[packing.indices],
            key.flatten(0, 1)[packing.indices],
            value.flatten(0, 1)[packing.indices],
            packing.boundaries,
            packing.boundaries,
            longest_query=padded,
            longest_key=padded,
            scale=self.geometry.scale,
        )
        flat = tokens.new_zeros((samples * padded, *tokens.shape[1:]))
        return flat.index_copy(0, packing.indices, tokens).view(samples, padded, *tokens.shape[1:])
