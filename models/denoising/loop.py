"""A denoising run: flow matching by Euler's method, classifier-free guidance by two forwards of one sample.

The text pass and the empty pass are two calls of the model and not one batch of two: an empty text needs no padding
then and no mask, whose lengths the host would have to wait for. So a run meets two sequence lengths in every step.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

from models.mammoth_moda2.checks import check_extent
from models.mammoth_moda2.rope import Grid
from models.mammoth_moda2.sequence import Sample

if TYPE_CHECKING:
    from models.mammoth_moda2 import AxisTables, Transformer2DModel

OnStep = Callable[[int], contextlib.AbstractContextManager[object]]

TOKEN_PIXELS: Final = 16
"""Side of what one token stands for: a patch of two latent pixels, eight pixels each."""

_LATENT_PIXELS: Final = 8
_SEEDS: Final = 2**31
_TEXT_SEED: Final = 2**31  # torch's CPU generator keeps 32 bits of a seed: this bit keeps text and noise apart


@dataclass(frozen=True)
class Request:
    """One image to denoise.

    Attributes:
        height: pixels, a multiple of 16.
        width: likewise.
        text_len: text tokens; 0 is an empty text.
        steps: of the scheduler.
        guidance: what the difference between text and no text is multiplied by; up to 1 there is no pass without.
        seed: of noise and text, below 2**31.

    Raises:
        ValueError: one of them is out of range.
    """

    height: int
    width: int
    text_len: int
    steps: int = 50
    guidance: float = 9.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        sides = (self.height, self.width)
        if any(side <= 0 or side % TOKEN_PIXELS for side in sides):
            problem = f"height and width are positive multiples of {TOKEN_PIXELS} pixels, not {sides[0]} x {sides[1]}"
        elif self.text_len < 0:
            problem = f"a text has 0 tokens or more, not {self.text_len}"
        elif self.steps < 1:
            problem = f"a run has at least 1 step, not {self.steps}"
        elif not (math.isfinite(self.guidance) and self.guidance >= 0):
            problem = f"guidance is a finite number from 0 on, not {self.guidance}"
        elif not 0 <= self.seed < _SEEDS:
            problem = f"a seed is at least 0 and below 2**31, not {self.seed}"
        else:
            return
        raise ValueError(problem)

    @property
    def guided(self) -> bool:
        """Whether a step makes two forwards."""
        return self.guidance > 1

    @property
    def latent_size(self) -> tuple[int, int]:
        """Height and width of the latent."""
        return self.height // _LATENT_PIXELS, self.width // _LATENT_PIXELS

    def __str__(self) -> str:
        """Return the size, as ``128x112x77``."""
        return f"{self.height}x{self.width}x{self.text_len}"


def require_fit(request: Request, tables: AxisTables) -> None:
    """Refuse a request that reaches past the end of ``tables``.

    Raises:
        ValueError: it does.
    """
    image = Grid(request.height // TOKEN_PIXELS, request.width // TOKEN_PIXELS)
    check_extent([Sample(request.text_len, (), image)], tables)


def seeded_noise(request: Request, channels: int) -> torch.Tensor:
    """Return the first latent ``[1, channels, H/8, W/8]``, float32 on the CPU so that all devices agree."""
    generator = torch.Generator().manual_seed(request.seed)
    return torch.randn(1, channels, *request.latent_size, generator=generator)


def seeded_text(request: Request, width: int) -> torch.Tensor:
    """Return text states ``[1, text_len, width]``, normal, float32 on the CPU so that all devices agree."""
    generator = torch.Generator().manual_seed(request.seed + _TEXT_SEED)
    return torch.randn(1, request.text_len, width, generator=generator)


def denoise(
    model: Transformer2DModel, request: Request, tables: AxisTables, *, on_step: OnStep | None = None
) -> torch.Tensor:
    """Run all steps of a request under ``torch.inference_mode``.

    The latent stays float32; a forward sees it and the text in the model's dtype, and the scheduler's own timestep (0
    to 1000) as float32 ``[1]``. Predictions are combined in float32. Nothing in the loop waits for the device.

    Args:
        model: in eval mode; its parameters say device and dtype.
        request: what to denoise.
        tables: of ``models.mammoth_moda2.tables``, on the model's device.
        on_step: called with each step's number, from 0; what it returns is entered around the step's forwards alone.

    Returns:
        The latent ``[1, in_channels, H/8, W/8]``, float32 on the model's device; an inference tensor.

    Raises:
        ValueError: the request reaches past the end of the tables.
    """
    require_fit(request, tables)
    weight = next(model.parameters())
    config: Any = model.config
    with torch.inference_mode():
        scheduler: Any = _scheduler(request.steps, weight.device)
        latent = seeded_noise(request, config.in_channels).to(weight.device)
        text = seeded_text(request, config.text_feat_dim).to(weight.device, weight.dtype)
        texts = (text, text[:, :0]) if request.guided else (text,)
        for step in range(request.steps):
            timestep = scheduler.timesteps[step : step + 1]
            given = latent.to(weight.dtype)
            with on_step(step) if on_step else contextlib.nullcontext():
                passes = [model(given, timestep, one, tables) for one in texts]
            latent = scheduler.step(guide(passes, request.guidance), timestep[0], latent, return_dict=False)[0]
    return latent


def _scheduler(steps: int, device: torch.device) -> FlowMatchEulerDiscreteScheduler:
    scheduler: FlowMatchEulerDiscreteScheduler = FlowMatchEulerDiscreteScheduler()
    scheduler.set_timesteps(steps, device=device)
    scheduler.set_begin_index(0)  # else the first step looks its index up on the device, and the host waits
    return scheduler


def guide(passes: list[torch.Tensor], guidance: float) -> torch.Tensor:
    """Combine a step's predictions in float32: ``uncond + guidance * (cond - uncond)``, or the only one.

    Args:
        passes: with text and, if there was one, without; of one shape, which the float32 result has too.
        guidance: the factor; not used for one pass.
    """
    if len(passes) == 1:
        return passes[0].float()
    cond, uncond = (one.float() for one in passes)
    return uncond + guidance * (cond - uncond)
