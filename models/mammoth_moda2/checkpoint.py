"""Parameters of the published checkpoints, by the names of the modules here.

The Preview release keeps the transformer under ``gen_transformer`` beside a language model and a
refiner of image conditions; the Dev release keeps an image embedder inside the transformer. Neither
refiner nor embedder is part of the model here, and what is left out is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

    from models.mammoth_moda2.transformer import Transformer2DModel

PREFIX: Final = "gen_transformer."
NOT_OURS: Final = ("gen_image_condition_refiner.", "time_caption_embed.image_embedder.")
_TOLD: Final = 3


@dataclass(frozen=True)
class Published:
    """A checkpoint, sorted.

    Attributes:
        state: parameters by the model's names.
        left_out: names of the checkpoint that belong to other models, as they stand there.
    """

    state: Mapping[str, torch.Tensor]
    left_out: tuple[str, ...]


def sort_published(checkpoint: Mapping[str, torch.Tensor]) -> Published:
    """Pick the transformer's parameters; where some have its prefix, only those are its own."""
    prefix = PREFIX if any(name.startswith(PREFIX) for name in checkpoint) else ""
    state: dict[str, torch.Tensor] = {}
    left_out: list[str] = []
    for name, value in checkpoint.items():
        own = name.removeprefix(prefix)
        if name.startswith(prefix) and not own.startswith(NOT_OURS):
            state[own] = value
        else:
            left_out.append(name)
    return Published(state, tuple(left_out))


def load_published(model: Transformer2DModel, checkpoint: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
    """Load a checkpoint into ``model``, all of it or nothing.

    Returns:
        The names that were left out.

    Raises:
        ValueError: the checkpoint lacks parameters of the model, has others of the transformer's, or
            its shapes are another configuration's.
    """
    published = sort_published(checkpoint)
    own = model.state_dict()
    problems = [
        *_told("lacks", own.keys() - published.state.keys()),
        *_told("has no place in the model for", published.state.keys() - own.keys()),
        *_told("is of another configuration in", _reshaped(own, published.state)),
    ]
    if problems:
        msg = f"the checkpoint {'; it '.join(problems)}"
        raise ValueError(msg)
    model.load_state_dict(dict(published.state))
    return published.left_out


def _reshaped(own: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> list[str]:
    return [
        f"{name} ({list(state[name].shape)}, here {list(value.shape)})"
        for name, value in own.items()
        if name in state and state[name].shape != value.shape
    ]


def _told(verb: str, names: Iterable[str]) -> list[str]:
    found = sorted(names)
    if not found:
        return []
    more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    return [f"{verb} {', '.join(found[:_TOLD])}{more}"]
