"""What an attention call knows about masked tokens, published by the model on the host.

A backend that is handed a mask alone must look at its values to learn whether anything is masked
at all, and looking at a tensor's values is what breaks a graph. The model knows the answer before
it builds the mask (it has the lengths), so it says so: as a Python value, which is guarded, not
looked up on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

MaskMode = Literal["none", "padding", "arbitrary"]


@dataclass(frozen=True)
class Packing:
    """Where the unmasked tokens of a padded batch stand.

    Attributes:
        indices: ``[T]`` int64, rows of the flattened ``[B * S]`` sequence that hold a token.
        boundaries: ``[B + 1]`` int32, where each sample begins among them; the last is ``T``.
    """

    indices: torch.Tensor
    boundaries: torch.Tensor

    @classmethod
    def of(cls, lengths: Sequence[int], padded: int, device: torch.device) -> Packing:
        """Lay out samples of ``lengths`` tokens, each followed by padding up to ``padded``."""
        rows = torch.cat([torch.arange(n, device=device) + sample * padded for sample, n in enumerate(lengths)])
        boundaries = torch.tensor([0, *lengths], device=device).cumsum(0, dtype=torch.int32)
        return cls(rows, boundaries)


@dataclass(frozen=True)
class AttentionMetadata:
    """What a backend may know beyond query, key and value.

    Attributes:
        mask: bool, True where a key counts: ``[B, Sk]``, or ``[B, 1 or H, Sq, Sk]`` if arbitrary.
        mode: ``none`` (nothing is masked), ``padding`` (each sample's tokens stand in front) or
            ``arbitrary``; None if nobody said, so that the mask itself must be asked.
        packing: the tokens of a padded self-attention, where the model laid them out.

    Raises:
        ValueError: the mode has no such value, or it speaks of a mask that is not there.
    """

    mask: torch.Tensor | None = None
    mode: MaskMode | None = None
    packing: Packing | None = None

    def __post_init__(self) -> None:
        """Check that mode and mask go together."""
        if self.mode is not None and self.mode not in get_args(MaskMode):
            msg = f"mask mode {self.mode!r} is none of {', '.join(get_args(MaskMode))}"
            raise ValueError(msg)
        if self.mask is None and self.mode in {"padding", "arbitrary"}:
            msg = f"mask mode {self.mode!r} needs a mask"
            raise ValueError(msg)

    @property
    def effective_mask(self) -> torch.Tensor | None:
        """The mask, unless it was said to mask nothing."""
        return None if self.mode == "none" else self.mask
