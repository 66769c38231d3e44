"""How a family's attention is fused, as data: what its blocks are called with, and what its rotary embedding is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fused_ops import Repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

Sizes = tuple[str | None, ...]
"""Names of a tensor's first sizes. What has one name has one size; ``?`` behind it says that it may be 0, and a size
without a name is fixed.
"""


@dataclass(frozen=True, slots=True)
class Frequencies:
    """A rotary embedding as :func:`fused_ops.rope_table` takes it.

    Attributes:
        cos: ``[S, R / 2]`` or ``[B, S, R / 2]``, or ``R`` wide where each is repeated.
        sin: as ``cos``.
        repeats: how each is repeated.
        identity_rows: tokens at the end of each batch entry that are not rotated.
    """

    cos: torch.Tensor
    sin: torch.Tensor
    repeats: Repeats = Repeats.NONE
    identity_rows: int = 0


@dataclass(frozen=True, slots=True)
class Streams:
    """How the model calls the blocks of one class.

    Attributes:
        order: arguments ``[B, S_i, width]`` whose tokens, in this order, are the table's rows, whether the block or
            its attention concatenates them; None is left out.
        rotary: argument that holds the rotary embedding.
        attention: attribute of the block that holds its attention.
    """

    order: tuple[str, ...]
    rotary: str = "image_rotary_emb"
    attention: str = "attn"


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches of a forward, by op."""

    joint: int = 0
    per_stream: int = 0


class Processor(Protocol):
    """An attention processor, eager or fused."""

    _attention_backend: Any
    _parallel_config: Any

    def __call__(self, attn: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (each family has its own)
        """Attend."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What :func:`models.families.fusing.fuse` needs to know of a family.

    Attributes:
        processors: by the name of diffusers' processor class, what replaces it: called with the eager processor and
            whether the joint op is wanted. Behind a function, since diffusers is slow to import.
        blocks: those whose attention is fused, by class name.
        sizes: of the tensor arguments of every block class, by its name and theirs; for
            :mod:`models.families.free_sizes`.
        frequencies: read the model's rotary embedding, given the tokens of each stream.
        launches: of one forward with the joint op, from the model's configuration.
        min_tokens: the family's own gate, over all streams and the batch; ``FUSED_OPS_MIN_TOKENS`` overrides it.
    """

    processors: Callable[[], Mapping[str, Callable[[Processor, bool], Processor]]]
    blocks: Mapping[str, Streams]
    sizes: Mapping[str, Mapping[str, Sizes]]
    frequencies: Callable[[Any, tuple[int, ...]], Frequencies]
    launches: Callable[[Mapping[str, Any]], Launches]
    min_tokens: int = 0


def repeated_pairs(rotary: tuple[torch.Tensor, torch.Tensor], _: tuple[int, ...]) -> Frequencies:
    """Read ``(cos, sin)``, each ``[S, R]`` with every cosine twice, side by side (FLUX.1, Flux.2, Ovis-Image)."""
    cos, sin = rotary
    return Frequencies(cos, sin, Repeats.PAIRS)
