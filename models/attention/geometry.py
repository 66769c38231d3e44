"""The numbers that a backend is built for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Geometry:
    """Heads of an attention layer.

    Attributes:
        heads: of the query, ``H``.
        kv_heads: of key and value, ``KV``; divides ``heads``.
        head_dim: elements of a head, ``D``.

    Raises:
        ValueError: ``kv_heads`` does not divide ``heads``.
    """

    heads: int
    kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        """Check that the heads can be grouped."""
        if self.heads % self.kv_heads:
            msg = f"{self.heads} query heads cannot share {self.kv_heads} key-value heads evenly"
            raise ValueError(msg)

    @property
    def group(self) -> int:
        """Query heads that share one key-value head."""
        return self.heads // self.kv_heads

    @property
    def scale(self) -> float:
        """What scores are multiplied by: one over the root of the head's elements."""
        return float(self.head_dim**-0.5)
