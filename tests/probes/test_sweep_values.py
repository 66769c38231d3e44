"""What a real sweep says of the values of an axis under static shapes, the recompile limit and an exception."""

from __future__ import annotations

import torch

from compilescope.observing import observe
from compilescope.render.sweeps import axis_lines
from compilescope.workloads.declare import Axis
from compilescope.workloads.points import Order
from compilescope.workloads.sweep import Plan, walk


def test_values_of_a_static_axis() -> None:
    def doubled(n: int) -> torch.Tensor:
        if n > 100:
            raise IndexError(n)
        return compiled(torch.ones(n))

    compiled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    plan = Plan("w", (Axis("n", (32, 64, 8, 16, 200)),), Order())
    with torch._dynamo.config.patch(recompile_limit=2), observe(count_runs=True) as scope:
        scope.add_sweep(walk(plan, doubled, scope).sweep)
    recording = scope.recording
    (line,) = axis_lines(recording, recording.sweeps[0])
    assert line.verdict == (
        "8, 16: ran eagerly (limit); 200: raised IndexError; every other value has its own graph (size)"
    )
    (fallback,) = recording.fallbacks
    assert fallback.points == ({"n": 8}, {"n": 16})
