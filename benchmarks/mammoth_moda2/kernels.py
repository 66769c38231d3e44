"""Where a forward's GPU time goes, by kind of kernel, eager and compiled, with and without the fused op.

    python -m benchmarks.mammoth_moda2.kernels

At the preview's width, 1024 x 1024 pixels and 77 text tokens, bfloat16. Times are sums of kernel times
that torch.profiler reports for one forward, the mean of several; the gaps between kernels are what is
missing to the time that CUDA events give for the same forward.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Final

import torch
from torch.profiler import ProfilerActivity, profile

from models.diffusers_dits import Size
from models.mammoth_moda2 import build, inputs, tables
from models.regional import regionally_compile

if TYPE_CHECKING:
    from collections.abc import Callable

FORWARDS: Final = 5
# By what their names contain; the first that fits counts.
KINDS: Final = {
    "compiled pointwise and reductions": ("triton_",),
    "attention": ("flash", "fmha", "attention", "sdpa"),
    "norm and rotation, fused": ("_qk_norm_rope", "norm_rope"),
    "matrix products": ("gemm", "nvjet", "cutlass", "matmul", "cublas", "splitk"),
    "copies": ("memcpy", "memset", "copy_kernel", "copy_device"),
}
OTHER: Final = "eager pointwise and reductions"


def kind_of(kernel: str) -> str:
    """Sort a kernel by its name."""
    lowered = kernel.lower()
    return next((kind for kind, parts in KINDS.items() if any(part in lowered for part in parts)), OTHER)


def by_kind(call: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
    """Return microseconds and launches of one call, by kind of kernel."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(FORWARDS):
            call()
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    launches: Counter[str] = Counter()
    for event in found.key_averages():
        if not event.self_device_time_total:
            # Calls into the driver, which are listed beside the kernels that they start.
            continue
        kind = kind_of(event.key)
        spent[kind] += event.self_device_time_total / FORWARDS
        launches[kind] += event.count / FORWARDS
    return spent, launches


def elapsed(call: Callable[[], object]) -> float:
    """Return the median microseconds of one call between CUDA events."""
    times = []
    for _ in range(4 * FORWARDS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * start.elapsed_time(end))
    return statistics.median(times)


def main() -> None:
    """Print a table of every arm."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--attention", default="flash")
    parser.add_argument("--text-len", type=int, default=77)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.layers} layers, {options.attention}")
    size = Size(64, 64, options.text_len, device="cuda", dtype=torch.bfloat16)
    for fused, compiled in itertools.product((False, True), repeat=2):
        torch.compiler.reset()
        model = build(
            "preview",
            device="cuda",
            dtype=torch.bfloat16,
            num_layers=options.layers,
            attention_backend=options.attention,
            fused_qk_norm_rope=fused,
        )
        if compiled:
            regionally_compile(model, dynamic=True, fullgraph=True)
        given = inputs(model, size, tables(model, "cuda"))
        with torch.inference_mode():
            for _ in range(3):
                model(**given)
            whole = elapsed(lambda: model(**given))  # noqa: B023 (called at once)
            spent, launches = by_kind(lambda: model(**given))  # noqa: B023
        print(f"\n{'compiled' if compiled else 'eager'}, {'fused op' if fused else 'no fused op'}: {whole:.0f} us")
        for kind, microseconds in spent.most_common():
            print(f"  {kind:36} {microseconds:9.0f} us {microseconds / whole:6.1%} {launches[kind]:7.0f} launches")
        print(f"  {'between kernels':36} {whole - spent.total():9.0f} us {1 - spent.total() / whole:6.1%}")


if __name__ == "__main__":
    main()
