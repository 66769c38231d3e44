"""Every fused family as a workload: what it compiles over resolutions, text lengths and batches.

    compilescope report models.families:qwen_image --set fused=true
    compilescope report models.families:flux --set fused=true --set remedies=marks
    compilescope report models.families:flux --set size=full --device meta
    compilescope report models.families:hunyuan_video15 --sweep frames=1,3
    compilescope report models.families:z_image --sweep cfg=off,turns,batch

Heights and widths are latent patches, so 64 is 1024 pixels. ``cfg=turns`` is guidance as two forwards, with the text
and with ``uncond_len`` tokens in its place; ``cfg=batch`` is guidance as one forward of twice the batch, the shorter
texts padded and masked, where the model takes a mask.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch

from compilescope import Axis, Workload, workload
from models.families.registry import FAMILIES, FUSED
from models.families.size import Size
from models.regional import regionally_compile

if TYPE_CHECKING:
    from collections.abc import Callable

    from models.families.family import Family

REMEDIES: Final = ("none", "marks")
# A text first that is not empty: what is compiled for an empty one first serves no other.
_TEXTS: Final = (7, 0, 1, 77)


def declare(name: str) -> Workload:
    """Return the workload of the family of this name."""
    family = FAMILIES[name]
    texts = [length for length in _TEXTS if length or family.empty_text]
    axes = [
        Axis("height", [5, 3]),
        Axis("width", [6, 7]),
        Axis("text_len", texts),
        Axis("batch", [2, 1]),
        Axis("cfg", ["off"]),
        Axis("frames", [1]),
    ]

    def factory(  # noqa: PLR0913 (each is a --set of the command)
        *,
        device: str = "cpu",
        size: str = "tiny",
        dtype: str = "float32",
        fused: bool = False,
        joint: bool = True,
        remedies: str = "none",
        dynamic: bool | None = True,
        fullgraph: bool = True,
        backend: str = "eager",
        uncond_len: int = 4,
    ) -> Callable[..., object]:
        model = family.build(size=size, device=device, dtype=getattr(torch, dtype))
        prepare(family, model, fused=fused, joint=joint, remedies=remedies)
        regionally_compile(model, strict=True, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
        fixed = Size(1, 1, 0, device=device, dtype=getattr(torch, dtype))

        def call(height: int, width: int, text_len: int, batch: int, cfg: str, frames: int) -> object:  # noqa: PLR0913, PLR0917
            asked = replace(fixed, height=height, width=width, text_len=text_len, batch=batch, frames=frames)
            return guided(family, model, asked, cfg, uncond_len)

        return call

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = f"Build {family.class_name}, fuse it where asked, and compile its blocks one by one."
    return workload(axes=axes, targets=[f"{block}.forward" for block in family.blocks])(factory)


def prepare(family: Family, model: torch.nn.Module, *, fused: bool, joint: bool = True, remedies: str = "none") -> None:
    """Fuse the model and leave its sizes free, as asked, before it is compiled.

    The op stands in where no kernel runs, so that what is compiled is what a GPU would get.

    Raises:
        ValueError: ``remedies`` is none of them.
        RuntimeError: this torch cannot leave sizes free.
    """
    if remedies not in REMEDIES:
        msg = f"remedies is one of {', '.join(REMEDIES)}, not {remedies!r}"
        raise ValueError(msg)
    if fused:
        family.fuse(model, joint=joint, stand_in=True)
    if remedies == "marks":
        family.leave_sizes_free(model)


def guided(family: Family, model: torch.nn.Module, size: Size, cfg: str, uncond_len: int) -> object:
    """Run the model at a size as ``cfg`` says.

    Returns:
        The output, or both of ``turns``.

    Raises:
        ValueError: ``cfg`` is none of the three, or the model takes no padded texts.
    """
    if cfg == "off":
        return family.call(model, size)
    if cfg == "turns":
        return family.call(model, size), family.call(model, replace(size, text_len=uncond_len))
    if cfg != "batch":
        msg = f"cfg is off, turns or batch, not {cfg!r}"
        raise ValueError(msg)
    if family.pad is None:
        msg = f"{family.class_name} takes no mask of its text, so guidance is no padded batch"
        raise ValueError(msg)
    longest = max(size.text_len, uncond_len)
    both = replace(size, text_len=longest, batch=2 * size.batch)
    lengths = [size.text_len] * size.batch + [uncond_len] * size.batch
    config: Any = model.config
    return family.run(model, family.pad(family.inputs(both, config), lengths))


WORKLOADS: Final = {name: declare(name) for name in FUSED}
"""By the family's name."""
