"""One sequence from three kinds of tokens: text, reference images, image, in this order.

A sample's tokens stand without gaps; a batch of unequal samples is padded behind. All lengths are
Python ints, so nothing here waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from models.attention import AttentionMetadata, Packing
from models.mammoth_moda2.rope import Grid, image_positions, text_positions

if TYPE_CHECKING:
    from collections.abc import Sequence

MaskPublishing = Literal["auto", "padding", "unknown"]


@dataclass(frozen=True)
class Sample:
    """What one sample's sequence is made of.

    Attributes:
        text: true text tokens.
        references: reference images, in order.
        image: the image that is denoised.
    """

    text: int
    references: tuple[Grid, ...]
    image: Grid

    @property
    def tokens(self) -> int:
        """Tokens of the joint sequence."""
        return self.text + sum(grid.tokens for grid in self.references) + self.image.tokens

    @property
    def extent(self) -> tuple[int, int, int]:
        """Positions, rows and columns that the rotary tables must hold."""
        grids = (*self.references, self.image)
        rows, columns = max(grid.height for grid in grids), max(grid.width for grid in grids)
        return self._starts()[-1] + 1, max(self.text, rows), max(self.text, columns)

    def reference_positions(self, device: torch.device) -> list[torch.Tensor]:
        """Return each reference's ``[tokens, 3]`` coordinates."""
        return [image_positions(grid, at, device) for grid, at in zip(self.references, self._starts(), strict=False)]

    def image_positions(self, device: torch.device) -> torch.Tensor:
        """Return the image's ``[tokens, 3]`` coordinates."""
        return image_positions(self.image, self._starts()[-1], device)

    def joint_positions(self, device: torch.device) -> torch.Tensor:
        """Return the whole sequence's ``[tokens, 3]`` coordinates."""
        parts = [text_positions(self.text, device), *self.reference_positions(device), self.image_positions(device)]
        return torch.cat(parts)

    def _starts(self) -> list[int]:
        """Say at which position each reference stands, and last the image."""
        starts = [self.text]
        for grid in self.references:
            starts.append(starts[-1] + max(grid.height, grid.width))
        return starts


def text_lengths(text: torch.Tensor, mask: torch.Tensor | None) -> list[int]:
    """Count each sample's true tokens in ``[B, T, width]``; with a mask the host waits for the device."""
    if mask is None:
        return [text.shape[1]] * text.shape[0]
    lengths: list[int] = mask.sum(1).tolist()
    return lengths


def publish_mask(
    lengths: Sequence[int], padded: int, device: torch.device, *, publishing: MaskPublishing, packing: bool
) -> torch.Tensor | AttentionMetadata:
    """Say what is masked in samples of ``lengths`` tokens, padded behind.

    Args:
        lengths: true tokens of each sample.
        padded: length of the sequence.
        device: where masks shall be.
        publishing: ``auto`` tells ``none`` from ``padding``, which are two graphs; ``padding`` always
            masks, which is one; ``unknown`` hands over the bare mask, as the published model does.
        packing: also lay out the true tokens, for a backend that skips the others.
    """
    if publishing == "auto" and all(length == padded for length in lengths):
        return AttentionMetadata(mode="none")
    mask = torch.arange(padded, device=device) < torch.tensor(lengths, device=device)[:, None]
    if publishing == "unknown":
        return mask
    return AttentionMetadata(mask, "padding", Packing.of(lengths, padded, device) if packing else None)


def pad_rows(rows: Sequence[torch.Tensor], padded: int) -> torch.Tensor:
    """Stack ``[S_i, width]`` into ``[B, padded, width]``, zeros behind; a new tensor, no view."""
    out = rows[0].new_zeros((len(rows), padded, rows[0].shape[-1]))
    for sample, own in enumerate(rows):
        out[sample, : own.shape[0]] = own
    return out
