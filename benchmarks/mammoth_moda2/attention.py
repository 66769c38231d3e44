"""How far flash attention and SDPA in bfloat16 are from float64, and what they take.

    python -m benchmarks.mammoth_moda2.attention

The inputs are bfloat16 already; what remains is the error of the computation and of rounding its
result. ``rounding`` is float64 rounded to bfloat16 once: nobody can be nearer.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

import torch

from models.attention import Geometry, make_attention

if TYPE_CHECKING:
    from collections.abc import Callable

CASES: Final = (
    (Geometry(21, 7, 120), 1, 4096 + 77),
    (Geometry(21, 7, 120), 1, 1024),
    (Geometry(24, 24, 128), 1, 4096 + 512),
    (Geometry(16, 4, 64), 2, 1101),
)
TURNS: Final = 20


def in_float64(geometry: Geometry, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attend head by head, since all scores at once would need tens of gigabytes."""
    heads = []
    for head in range(geometry.heads):
        shared = head // geometry.group
        q, k, v = query[:, :, head].double(), key[:, :, shared].double(), value[:, :, shared].double()
        heads.append(((q @ k.transpose(1, 2)) * geometry.scale).softmax(-1) @ v)
    return torch.stack(heads, dim=2)


def median_ms(call: Callable[[], object]) -> float:
    """Return the median milliseconds of a call between CUDA events."""
    times = []
    for _ in range(TURNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def main() -> None:
    """Print a row for every geometry and backend."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"{'heads x D / kv, batch, tokens':32} {'':9} {'relative L2':>12} {'max abs':>10} {'mean abs':>10} {'ms':>8}")
    for geometry, batch, tokens in CASES:
        draw = torch.Generator("cuda").manual_seed(0)
        inputs = [
            torch.randn(batch, tokens, heads, geometry.head_dim, generator=draw, device="cuda", dtype=torch.bfloat16)
            for heads in (geometry.heads, geometry.kv_heads, geometry.kv_heads)
        ]
        exact = in_float64(geometry, *inputs)
        title = f"{geometry.heads} x {geometry.head_dim} / {geometry.kv_heads}, {batch}, {tokens}"
        rows = {"rounding": (exact.bfloat16(), None)}
        for name in ("flash", "sdpa"):
            attend = make_attention(name, geometry)
            rows[name] = (attend(*inputs), median_ms(lambda: attend(*inputs)))  # noqa: B023 (called at once)
        for name, (out, took) in rows.items():
            error = out.double() - exact
            ms = "" if took is None else f"{took:8.3f}"
            relative = (error.norm() / exact.norm()).item()
            print(f"{title:32} {name:9} {relative:12.2e} {error.abs().max():10.2e} {error.abs().mean():10.2e} {ms}")


if __name__ == "__main__":
    main()
