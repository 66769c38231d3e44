"""What an arm costs: time of a step, start-up and memory.

Arms take turns forwards and then backwards (A B, B A), so that a drift of the machine meets all of them alike. A turn
is a whole run. A step's time is that of its forwards (two if guided): between CUDA events on CUDA, on the host's clock
on a CPU. Where the host is slower than the device, the device's waiting for it counts as well, as a user would feel it.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Arm = TypeVar("Arm", bound=str)


class StepClock:
    """Times the forwards of every step; hand :meth:`step` to ``denoise`` as ``on_step``.

    Args:
        device: where the model runs, a CPU or CUDA.

    Raises:
        ValueError: another device, whose queue the host's clock would not see.
    """

    def __init__(self, device: torch.device) -> None:
        if device.type not in {"cpu", "cuda"}:
            msg = f"steps are timed on cpu and cuda, not on {device.type}"
            raise ValueError(msg)
        self._device = device
        self._host: list[float] = []
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:  # noqa: ARG002 (what on_step is called with)
        """Time what is inside. On CUDA nothing waits here."""
        if self._device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            stream = torch.cuda.current_stream(self._device)
            start.record(stream)
            yield
            end.record(stream)
            self._events.append((start, end))
        else:
            began = time.perf_counter()
            yield
            self._host.append(time.perf_counter() - began)

    def seconds(self) -> tuple[float, ...]:
        """Return the seconds of every finished step, in order; on CUDA, wait for the last."""
        if not self._events:
            return tuple(self._host)
        self._events[-1][1].synchronize()
        return tuple(start.elapsed_time(end) / 1e3 for start, end in self._events)


def abba(arms: Sequence[Arm], rounds: int = 1) -> tuple[Arm, ...]:
    """Return the order of turns: all arms forwards, then all backwards, ``rounds`` times.

    Raises:
        ValueError: ``rounds`` is below 1.
    """
    if rounds < 1:
        msg = f"arms take turns at least once, not {rounds} times"
        raise ValueError(msg)
    return (*arms, *reversed(arms)) * rounds


def warm_step(turns: Sequence[Sequence[float]], warmup: int) -> float | None:
    """Return the median seconds of the steps of all turns, each turn's first ``warmup`` left out; None if none is left.

    Raises:
        ValueError: ``warmup`` is negative.
    """
    if warmup < 0:
        msg = f"0 steps or more are left out to warm up, not {warmup}"
        raise ValueError(msg)
    steps = [seconds for turn in turns for seconds in turn[warmup:]]
    return statistics.median(steps) if steps else None


def start_up(turns: Sequence[Sequence[float]], warm: float | None) -> float | None:
    """Return how many seconds the very first step took beyond a warm one; None if there is no such pair."""
    if warm is None or not turns or not turns[0]:
        return None
    return turns[0][0] - warm


def reset_peak(device: torch.device) -> None:
    """Begin a new peak of the memory that torch has allocated on ``device``, where that is kept."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int | None:
    """Return the most bytes allocated at once since :func:`reset_peak`, weights included; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
