"""What a request varies: the sizes, device and dtype of a model's inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Size:
    """What a request varies.

    Attributes:
        height, width: of the latent, in tokens (patches).
        text_len: text tokens.
        batch: images at once.
        device: where the inputs live.
        dtype: of floating inputs.
        frames: of a video, in latent frames; image models take one.
    """

    height: int
    width: int
    text_len: int
    batch: int = 1
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    frames: int = 1

    @property
    def tokens(self) -> int:
        """Image tokens."""
        return self.height * self.width

    def random(self, *shape: int) -> torch.Tensor:
        """Return seeded normal values of ``shape``."""
        if self.device == "meta":
            return torch.empty(*shape, device="meta", dtype=self.dtype)
        generator = torch.Generator().manual_seed(1)
        return torch.randn(*shape, generator=generator).to(device=self.device, dtype=self.dtype)

    def full(self, value: float, *shape: int) -> torch.Tensor:
        """Return a constant of ``shape``."""
        return torch.full(shape, value, device=self.device, dtype=self.dtype)

    def grid(self, axes: int) -> torch.Tensor:
        """Return position ids ``[tokens, axes]``: row in axis 1, column in axis 2, zero elsewhere."""
        ids = torch.zeros(self.height, self.width, axes, device=self.device)
        ids[..., 1] += torch.arange(self.height, device=self.device)[:, None]
        ids[..., 2] += torch.arange(self.width, device=self.device)[None]
        return ids.reshape(self.tokens, axes)
