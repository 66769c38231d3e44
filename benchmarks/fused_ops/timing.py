"""Time GPU work by graph replay: medians, ABBA order, inputs and outputs rotated past the L2.

A subject is captured once as a CUDA graph of ten calls, each on its own inputs and into its own
outputs, so that no call finds its bytes in the cache and none waits for Python. Replays are timed
with CUDA events. Subjects take turns forwards and then backwards (A B C, C B A), so that a drift of
the machine meets all of them alike; a subject's time is the median over its turns.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CALLS = 10
REPLAYS = 3
ROUNDS = 12
COPY_GRAIN = 2**16


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call.

    Attributes:
        median: over all turns.
        low: smallest turn.
        high: largest turn.
    """

    median: float
    low: float
    high: float


def capture(call: Callable[[int], object]) -> torch.cuda.CUDAGraph:
    """Capture ``call(0) ... call(CALLS - 1)`` after one warm-up of each."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(CALLS):
            call(i)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Keeping every output until the capture ends gives each call its own output memory.
    outputs = []
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            outputs.append(call(i))  # noqa: PERF401 (the list must outlive each call, not be built at once)
    return graph


def capture_copy(total: int) -> torch.cuda.CUDAGraph:
    """Capture copies that read and write about ``total`` bytes in all, half each.

    The half is rounded up to a multiple of 64 KiB (less than 0.3% of it here): a copy of another size
    takes the driver up to half as long again, and would flatter what is compared with it.
    """
    half = -(-total // (2 * COPY_GRAIN)) * COPY_GRAIN
    buffers = [torch.randint(0, 127, (half,), dtype=torch.int8, device="cuda") for _ in range(2 * CALLS)]
    return capture(lambda i: buffers[i].copy_(buffers[CALLS + i]))


def _replay(graph: torch.cuda.CUDAGraph, replays: int) -> float:
    """Return microseconds a call over ``replays`` back-to-back replays."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / (replays * CALLS)


def compare(graphs: dict[str, torch.cuda.CUDAGraph], *, rounds: int = ROUNDS) -> dict[str, Timing]:
    """Time the graphs against each other in ABBA order.

    Args:
        graphs: by the subject's name.
        rounds: forward and backward passes, half each; even.
    """
    names = list(graphs)
    turns: dict[str, list[float]] = {name: [] for name in names}
    for graph in graphs.values():
        _replay(graph, 1)
    for turn in range(rounds):
        order: Sequence[str] = names if turn % 2 == 0 else names[::-1]
        for name in order:
            turns[name].append(_replay(graphs[name], REPLAYS))
    return {name: Timing(statistics.median(t), min(t), max(t)) for name, t in turns.items()}
