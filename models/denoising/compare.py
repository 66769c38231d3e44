"""Run one model eager and compiled, and the control arm, over the same requests.

All arms share one model object: blocks are compiled in place and restored between turns. Every turn is observed by
compilescope, so that it is seen and not assumed that the eager arm compiled nothing, and later turns nothing more.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch.fx.experimental import _config as shapes

import compilescope
from models.denoising import measures, timing
from models.denoising.control import norm_reduction_in_lanes
from models.denoising.decoder import decode, saturated
from models.denoising.loop import denoise, require_fit
from models.denoising.results import Against, Arm, Comparison, Measured, Settings
from models.mammoth_moda2 import leave_sizes_free, tables
from models.regional import regionally_compile, restore_eager

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope import Recording
    from models.denoising.loop import Request
    from models.denoising.results import ArmName
    from models.mammoth_moda2 import AxisTables, Transformer2DModel

TARGET: Final = "TransformerBlock.forward"
REMEDIES: Final = {"backed_size_oblivious": True, "use_duck_shape": False}


class _Run(NamedTuple):
    """One request in one turn; without a latent it raised ``error``."""

    latent: torch.Tensor | None
    seconds: tuple[float, ...] = ()
    peak: int | None = None
    compiles: int = 0
    error: str | None = None


class _Turn(NamedTuple):
    """One arm over all requests, once."""

    changed: int
    recording: Recording
    runs: list[_Run]


def run_arms(model: Transformer2DModel, requests: Sequence[Request], settings: Settings) -> Comparison:
    """Measure every arm at every request, in ABBA order of whole turns.

    All compiled code of the process is dropped first, as ``torch.compiler.reset`` does; Inductor's caches on disk are
    not touched, so a start-up is a cold one only where those are empty. It contains what observing a compilation costs.
    A request that raises is noted in its arm, and the next one runs.

    Args:
        model: in eval mode, nothing of it compiled; left as it was.
        requests: in the order that every arm meets them.
        settings: how.

    Returns:
        What was found; latents are not kept.

    Raises:
        ValueError: no requests, one that the model's tables do not reach, norms that the control cannot reorder,
            or a device that is not timed.
    """
    axes = tables(model, next(model.parameters()).device)
    _require(model, requests, axes, settings)
    names: tuple[ArmName, ...] = ("eager", "compiled", "control") if settings.control else ("eager", "compiled")
    turns: dict[ArmName, list[_Turn]] = {name: [] for name in names}
    torch.compiler.reset()
    patch = shapes.patch(REMEDIES)  # type: ignore[attr-defined]  # torch puts it there at run time
    with patch if settings.remedies == "settings" else contextlib.nullcontext():
        for name in timing.abba(names, settings.rounds):
            turns[name].append(_turn(name, model, requests, axes, settings))
    return _comparison(model, requests, settings, turns)


def _require(model: Transformer2DModel, requests: Sequence[Request], axes: AxisTables, settings: Settings) -> None:
    """Refuse now what would be refused in the middle of a long run.

    Raises:
        ValueError: as :func:`run_arms`.
    """
    if not requests:
        msg = "there is no request to run"
        raise ValueError(msg)
    for request in requests:
        require_fit(request, axes)
    timing.StepClock(next(model.parameters()).device)
    if settings.control:
        with norm_reduction_in_lanes(model):
            pass


@contextlib.contextmanager
def _dressed(name: ArmName, model: Transformer2DModel, settings: Settings) -> Iterator[int]:
    """Make the model an arm while the block runs; yield how many modules that changed."""
    if name == "control":
        with norm_reduction_in_lanes(model) as changed:
            yield changed
    elif name == "compiled":
        options = {"dynamic": True, "fullgraph": True, "backend": settings.backend, **settings.compile_options}
        marks = leave_sizes_free(model) if settings.remedies == "marks" else []
        try:
            yield regionally_compile(model, strict=True, **options)
        finally:
            restore_eager(model)
            for mark in marks:
                mark.remove()
    else:
        yield 0


def _turn(
    name: ArmName, model: Transformer2DModel, requests: Sequence[Request], axes: AxisTables, settings: Settings
) -> _Turn:
    with _dressed(name, model, settings) as changed, compilescope.observe([TARGET]) as scope:
        runs = [_run(model, request, axes, scope) for request in requests]
    return _Turn(changed, scope.recording, runs)


def _run(model: Transformer2DModel, request: Request, axes: AxisTables, scope: compilescope.Scope) -> _Run:
    device = next(model.parameters()).device
    clock = timing.StepClock(device)
    before = _compiles(scope.recording)
    point = {"height": request.height, "width": request.width, "text_len": request.text_len}
    timing.reset_peak(device)
    try:
        with scope.at(point):
            latent = denoise(model, request, axes, on_step=clock.step).cpu()
        seconds = clock.seconds()
    except Exception as error:  # noqa: BLE001 (whatever torch raises here is this arm's result)
        lines = str(error).strip().splitlines() or ["no message"]
        return _Run(None, compiles=_compiles(scope.recording) - before, error=f"{type(error).__name__}: {lines[0]}")
    return _Run(latent, seconds, timing.peak_bytes(device), _compiles(scope.recording) - before)


def _compiles(recording: Recording) -> int:
    """Count the compilations of the target."""
    return sum(target.compiles for target in recording.targets)


def _comparison(
    model: Transformer2DModel, requests: Sequence[Request], settings: Settings, turns: dict[ArmName, list[_Turn]]
) -> Comparison:
    weight = next(model.parameters())
    return Comparison(
        torch=str(torch.__version__),
        device=torch.cuda.get_device_name(weight.device) if weight.device.type == "cuda" else weight.device.type,
        dtype=str(weight.dtype).removeprefix("torch."),
        parameters=sum(p.numel() for p in model.parameters()),
        model={name: value for name, value in model.config.items() if not name.startswith("_")},
        settings=settings,
        order=timing.abba(tuple(turns), settings.rounds),
        arms=tuple(_arm(name, requests, own, settings.warmup) for name, own in turns.items()),
        differences=_differences(requests, {name: own[0].runs for name, own in turns.items()}),
    )


def _arm(name: ArmName, requests: Sequence[Request], turns: Sequence[_Turn], warmup: int) -> Arm:
    by_request = zip(*(turn.runs for turn in turns), strict=True)
    return Arm(
        name=name,
        changed=turns[0].changed,
        recording=turns[0].recording,
        later_compiles=sum(len(turn.recording.compiled) for turn in turns[1:]),
        measured=tuple(_measured(request, runs, warmup) for request, runs in zip(requests, by_request, strict=True)),
    )


def _measured(request: Request, runs: Sequence[_Run], warmup: int) -> Measured:
    latents = [run.latent for run in runs if run.latent is not None]
    ended = [run.seconds for run in runs if run.latent is not None]
    peaks = [run.peak for run in runs if run.peak is not None]
    warm = timing.warm_step(ended, warmup)
    return Measured(
        request=request,
        turns=tuple(ended),
        step_seconds=warm,
        startup_seconds=None if runs[0].error else timing.start_up(ended, warm),
        peak_bytes=max(peaks, default=None),
        compiles=runs[0].compiles,
        repeatable=all(measures.bitwise(latents[0], one) for one in latents[1:]) if len(latents) > 1 else None,
        error=next((run.error for run in runs if run.error), None),
    )


def _differences(requests: Sequence[Request], runs: dict[ArmName, list[_Run]]) -> tuple[Against, ...]:
    return tuple(
        against(name, request, candidate.latent, reference.latent)
        for name, candidates in runs.items()
        if name != "eager"
        for request, candidate, reference in zip(requests, candidates, runs["eager"], strict=True)
    )


def against(arm: ArmName, request: Request, candidate: torch.Tensor | None, reference: torch.Tensor | None) -> Against:
    """Measure two latents ``[1, C, h, w]`` and their images; None stands for a run that raised."""
    if candidate is None or reference is None:
        return Against(arm=arm, request=request, note=f"the {'eager' if reference is None else arm} arm raised")
    try:
        latent = measures.compare(candidate, reference, peak=None)
        std = reference.std().item()
        images = [decode(one, std=std) for one in (candidate, reference)]
        image = measures.compare(*images)
    except ValueError as error:
        return Against(arm=arm, request=request, note=f"not measured: {error}")
    return Against(arm=arm, request=request, image=image, latent=latent, latent_std=std, saturated=saturated(images[1]))
