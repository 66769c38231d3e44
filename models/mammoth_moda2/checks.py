"""What the transformer refuses, in a sentence, before anything is computed.

On a GPU a look-up past the end of the rotary tables would end the process' context, and a shape that
does not fit would fail somewhere inside a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from models.mammoth_moda2.rope import AxisTables
    from models.mammoth_moda2.sequence import Sample

References = Sequence[Sequence[torch.Tensor]]
MOST_REFERENCES: Final = 5
_LATENT_RANK: Final = 4
_AXES: Final = ("positions", "rows", "columns")


def check_inputs(latent: torch.Tensor, text: torch.Tensor, references: References, patch: int) -> None:
    """Check shapes and counts.

    Args:
        latent: ``[B, C, H, W]``.
        text: ``[B, T, text_feat_dim]``.
        references: for each sample its reference latents, ``[C, h, w]`` each.
        patch: side of a patch in latent pixels.

    Raises:
        ValueError: they do not fit together or cannot be cut into patches.
    """
    if latent.dim() != _LATENT_RANK:
        problem = f"a latent is [batch, channels, height, width], not {list(latent.shape)}"
    elif latent.shape[0] != text.shape[0]:
        problem = f"{latent.shape[0]} latents cannot have {text.shape[0]} texts"
    elif len(references) != latent.shape[0]:
        problem = f"{latent.shape[0]} latents cannot have {len(references)} lists of reference images"
    elif any(len(refs) > MOST_REFERENCES for refs in references):
        problem = f"a sample has at most {MOST_REFERENCES} reference images"
    elif odd := _odd_size(latent, references, patch):
        problem = f"a latent of {odd} cannot be cut into patches of {patch} x {patch}"
    else:
        return
    raise ValueError(problem)


def _odd_size(latent: torch.Tensor, references: References, patch: int) -> str | None:
    for image in (latent, *(ref for refs in references for ref in refs)):
        height, width = image.shape[-2:]
        if height % patch or width % patch:
            return f"{height} x {width}"
    return None


def check_extent(samples: Sequence[Sample], tables: AxisTables) -> None:
    """Check that the rotary tables reach as far as every sample.

    Raises:
        ValueError: one is longer, higher or wider.
    """
    needed = zip(*(sample.extent for sample in samples), strict=True)
    for axis, lengths, (cos, _) in zip(_AXES, needed, tables, strict=True):
        if max(lengths) > cos.shape[0]:
            msg = f"the rotary tables hold {cos.shape[0]} {axis}, and this request needs {max(lengths)}"
            raise ValueError(msg)
