"""One shape for every family of diffusion transformers: configurations, inputs, blocks, and how to fuse it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.utils.hooks import RemovableHandle

    from models.families.recipe import Launches, Recipe
    from models.families.size import Size

NORM_SPREAD: Final = 0.05
_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class Family:
    """One model family. The model itself is diffusers' own class.

    Attributes:
        class_name: of the diffusers class.
        blocks: names of the classes that are compiled one by one.
        tiny: configuration for a CPU.
        inputs: keyword arguments of ``forward`` at a size, for a configuration.
        full: configuration of the released model where it differs from the class's defaults.
        empty_text: whether the model itself accepts ``text_len=0``.
        declare_blocks: whether diffusers leaves ``_repeated_blocks`` empty, so that it is set here.
        recipe: how its attention is fused, or None where it cannot be.
        pad: make each batch entry's text as short as told, and the rest of it padding; None where the model takes no
            mask of its text.
    """

    class_name: str
    blocks: tuple[str, ...]
    tiny: Mapping[str, Any]
    inputs: Callable[[Size, Mapping[str, Any]], dict[str, Any]]
    full: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    empty_text: bool = False
    declare_blocks: bool = False
    recipe: Recipe | None = None
    pad: Callable[[dict[str, Any], list[int]], dict[str, Any]] | None = None

    def build(
        self,
        *,
        size: str = "tiny",
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        **tiny: Any,  # noqa: ANN401 (any setting)
    ) -> torch.nn.Module:
        """Return the model in eval mode with seeded weights; those of RMS norms are 1 + 0.05 n.

        Norm weights of one would hide where a norm rounds: before its weight, after it, or both.

        Args:
            size: ``tiny`` or ``full``.
            device: ``meta`` builds without weights.
            dtype: of all weights.
            tiny: settings that replace those of the tiny configuration; the full one stands as released.

        Raises:
            ValueError: ``size`` is neither.
        """
        import diffusers  # noqa: PLC0415 (slow to import, and an optional dependency)

        if size not in ("tiny", "full"):
            msg = f"size is tiny or full, not {size!r}"
            raise ValueError(msg)
        torch.manual_seed(_SEED)
        with torch.device(device):
            settings = {**self.tiny, **tiny} if size == "tiny" else self.full
            model: torch.nn.Module = getattr(diffusers, self.class_name)(**settings)
        if self.declare_blocks:
            # What compile_repeated_blocks reads.
            model._repeated_blocks = list(self.blocks)  # type: ignore[assignment]  # noqa: SLF001
        _spread_norm_weights(model)
        # torch's own method: diffusers' warns of modules to keep in float32, of which these classes name none.
        return torch.nn.Module.to(model, dtype).eval()

    def call(self, model: torch.nn.Module, size: Size) -> torch.Tensor:
        """Run the model at ``size`` without gradients and return its output tensor or first list item."""
        config: Mapping[str, Any] = model.config  # type: ignore[assignment]
        return self.run(model, self.inputs(size, config))

    def run(self, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        """Run the model on ``inputs`` without gradients and return its output tensor or first list item."""
        with torch.no_grad():
            output: torch.Tensor | list[torch.Tensor] = model(**inputs, return_dict=False)[0]
        return output[0] if isinstance(output, list) else output

    def fuse(self, model: torch.nn.Module, *, joint: bool = True, stand_in: bool = False) -> int:
        """Fuse the attention of a model of this family; see :func:`models.families.fusing.fuse`.

        Raises:
            ValueError: the family has no recipe, or as there.
        """
        from models.families import fusing  # noqa: PLC0415 (imports diffusers)

        return fusing.fuse(model, self._recipe(), joint=joint, stand_in=stand_in)

    def unfuse(self, model: torch.nn.Module) -> None:
        """Undo :meth:`fuse`: the processors and hooks of before are back.

        Raises:
            ValueError: the model is not fused.
        """
        from models.families import fusing  # noqa: PLC0415 (imports diffusers)

        fusing.unfuse(model)

    def leave_sizes_free(self, model: torch.nn.Module) -> list[RemovableHandle]:
        """Let one graph serve every size; see :func:`models.families.free_sizes.leave_sizes_free`.

        Raises:
            ValueError: the family has no recipe.
            RuntimeError: this torch cannot do it.
        """
        from models.families import free_sizes  # noqa: PLC0415 (imports diffusers)

        return free_sizes.leave_sizes_free(model, self._recipe())

    def launches(self, config: Mapping[str, Any]) -> Launches:
        """Return the launches of one forward where every layer is fused and the joint op is wanted.

        Raises:
            ValueError: the family has no recipe.
        """
        return self._recipe().launches(config)

    def _recipe(self) -> Recipe:
        if self.recipe is None:
            msg = f"nothing is known of how to fuse {self.class_name}"
            raise ValueError(msg)
        return self.recipe


def _spread_norm_weights(model: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(_SEED)
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if "RMSNorm" not in type(module).__name__ or weight is None or weight.is_meta:
            continue
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            weight.copy_(1 + NORM_SPREAD * noise)
