"""Measure the fused ops on a CUDA device and write one JSON file.

    python -m benchmarks.fused_ops.run --output results.json [--revision SHA]

Each case compares, within one run: the fused op; the eager chain; ``torch.compile`` of that chain;
a launch a stream plus concatenation; and a copy of the same number of bytes. Before anything is
timed, outputs are compared. How times are taken: :mod:`benchmarks.fused_ops.timing`.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import triton

from benchmarks.fused_ops import timing
from benchmarks.fused_ops.cases import CASES, Case, fused_stream, make_inputs, subjects

METHOD = (
    f"CUDA graph of {timing.CALLS} calls, each on its own inputs and into its own outputs (together several times the "
    f"L2); CUDA events around {timing.REPLAYS} replays; subjects take turns in ABBA order, {timing.ROUNDS} turns each; "
    "median over turns, microseconds a call. bfloat16 views of packed QKV projections, float32 coefficients. Bytes: "
    "Q, K and V read once and written once (Q and K for the per-stream op)."
)


def _agreement(case: Case, ways: dict[str, Any]) -> dict[str, float]:
    """Return, by way, the largest difference from the eager chain; refuse to time a wrong result."""
    x = make_inputs(case, seed=1234)
    want = ways["eager"](x)
    worst = {}
    for name, way in ways.items():
        got = [t.view_as(w) for t, w in zip(way(x), want, strict=True)]
        for t, w in zip(got, want, strict=True):
            torch.testing.assert_close(t, w, atol=0.0625, rtol=0.02)
        worst[name] = max((t.float() - w.float()).abs().max().item() for t, w in zip(got, want, strict=True))
    return worst


def measure(case: Case) -> dict[str, Any]:
    """Time every way to compute ``case``."""
    torch._dynamo.reset()  # noqa: SLF001 (each case is compiled for its own shape)
    ways = subjects(case)
    worst = _agreement(case, ways)
    inputs = [make_inputs(case, seed) for seed in range(timing.CALLS)]
    graphs = {name: timing.capture(lambda i, way=way: way(inputs[i])) for name, way in ways.items()}
    graphs["copy"] = timing.capture_copy(case.bytes_moved)
    times = timing.compare(graphs)
    fused = times["fused"].median
    return {
        "case": asdict(case),
        "bytes_moved": case.bytes_moved,
        "microseconds": {name: asdict(t) for name, t in times.items()},
        "fused_share_of_copy_bandwidth": times["copy"].median / fused,
        "speedup_of_fused_over": {name: t.median / fused for name, t in times.items() if name not in {"fused", "copy"}},
        "copy_terabytes_a_second": case.bytes_moved / times["copy"].median / 1e6,
        "max_difference_from_eager": worst,
    }


def host_microseconds(calls: int = 2000) -> float:
    """Return the host's time for one eager call that the device finishes sooner."""
    case = Case("host", 1, 8, 0, 2, 2)
    x = make_inputs(case, 0)
    for _ in range(100):
        fused_stream(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        fused_stream(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls * 1e6


def _revision() -> str | None:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607
    return done.stdout.strip() or None


def main() -> None:
    """Measure all cases and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--revision", default=_revision(), help="git revision, where the checkout has no .git")
    options = parser.parse_args()
    properties = torch.cuda.get_device_properties(0)
    report = {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "revision": options.revision,
        "method": METHOD,
        "host_microseconds_a_call": host_microseconds(),
        "cases": [],
    }
    for case in CASES:
        result = measure(case)
        report["cases"].append(result)
        times = {name: round(t["median"], 1) for name, t in result["microseconds"].items()}
        print(f"{case.name}: {result['fused_share_of_copy_bandwidth']:.1%} of copy; us {times}", flush=True)
        torch.cuda.empty_cache()
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
