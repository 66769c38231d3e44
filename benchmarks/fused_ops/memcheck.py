"""A small run for compute-sanitizer: odd sizes and layouts, where a wrong mask would show.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck python -m benchmarks.fused_ops.memcheck

Without PyTorch's caching every tensor is an allocation of its own, so that an access past its end is
an access out of bounds.
"""

from __future__ import annotations

import torch

from fused_ops import count_launches, joint_qkv_norm_rope, qk_norm_rope


def _streams(lengths: tuple[int, int], heads: tuple[int, int], dim: int, dtype: torch.dtype) -> list[torch.Tensor]:
    q_heads, kv_heads = heads
    return [
        torch.randn(2, tokens, count * dim, device="cuda").to(dtype).unflatten(-1, (count, dim))
        for tokens in lengths
        for count in (q_heads, kv_heads, kv_heads)
    ]


def main() -> None:
    """Run both ops over dims, heads, dtypes and pairings."""
    calls = 0
    with count_launches() as counts:
        for dim, rotary, heads in ((128, 128, (24, 24)), (120, 120, (7, 3)), (33, 20, (5, 1)), (2, 2, (1, 1))):
            for dtype in (torch.bfloat16, torch.float32):
                for interleaved in (True, False):
                    streams = _streams((3, 5), heads, dim, dtype)
                    weights = [torch.randn(dim, device="cuda").to(dtype) for _ in range(4)]
                    table = torch.randn(16, rotary, device="cuda")
                    options = {"rotary_dim": rotary, "interleaved": interleaved}
                    joint_qkv_norm_rope(*streams, *weights, table, 1e-6, **options)
                    flat = [x.flatten(0, 1) for x in streams[3:5]]
                    qk_norm_rope(*flat, *weights[:2], table[:10], 1e-6, **options)
                    calls += 2
        torch.cuda.synchronize()
    if counts.total != calls:
        msg = f"{counts.total} launches for {calls} calls"
        raise RuntimeError(msg)
    print(f"{calls} launches")


if __name__ == "__main__":
    main()
