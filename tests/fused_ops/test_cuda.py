"""On a device: the real kernel at real sizes, in graphs, under compile and past 32-bit offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional

from fused_ops import joint_qkv_norm_rope, qk_norm_rope, reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fused_ops.conftest import Lab

    SameBits = Callable[[torch.Tensor, torch.Tensor], bool]

pytestmark = pytest.mark.cuda

EPS = 1e-6
TOLERANCE = {"atol": 0.0625, "rtol": 0.02}  # what the models' own tests allow for bfloat16


def _packed(lab: Lab, tokens: int, heads: tuple[int, ...], dim: int, seed: int = 0) -> list[torch.Tensor]:
    """Views of one packed projection, ``[tokens, heads_i, dim]`` each."""
    flat = lab.randn(tokens, sum(heads) * dim, dtype=torch.bfloat16, seed=seed)
    return [part.unflatten(-1, (-1, dim)) for part in flat.split([h * dim for h in heads], dim=-1)]


def _streams(lab: Lab, batch: int, lengths: tuple[int, int], heads: tuple[int, int], dim: int) -> list[torch.Tensor]:
    q_heads, kv_heads = heads
    return [
        x.unflatten(0, (batch, tokens))
        for s, tokens in enumerate(lengths)
        for x in _packed(lab, batch * tokens, (q_heads, kv_heads, kv_heads), dim, seed=s)
    ]


def _weights(lab: Lab, count: int, dim: int) -> list[torch.Tensor]:
    return [lab.randn(dim, dtype=torch.bfloat16, seed=50 + i) for i in range(count)]


@pytest.mark.parametrize("tokens", [1, 257, 1024])
def test_half_split_geometry_of_128_rotated_by_96(lab: Lab, tokens: int) -> None:
    q, k, _ = _packed(lab, tokens, (14, 14, 14), 128)
    weights, table = _weights(lab, 2, 128), lab.table(tokens, 96, torch.bfloat16)
    got = qk_norm_rope(q, k, *weights, table, EPS, rotary_dim=96, interleaved=False)
    want = reference.qk_norm_rope(q, k, *weights, table, EPS, interleaved=False, rounding=reference.Rounding.EVERY_STEP)
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x, y, **TOLERANCE)


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("interleaved", [True, False])
def test_grouped_heads_of_120(lab: Lab, *, contiguous: bool, interleaved: bool) -> None:
    q, k = _packed(lab, 4139, (28, 7), 120)
    if contiguous:
        q, k = q.contiguous(), k.contiguous()
    weights, table = _weights(lab, 2, 120), lab.table(4139, 120)
    got = qk_norm_rope(q, k, *weights, table, EPS, interleaved=interleaved)
    for x, y, w in zip(got, (q, k), weights, strict=True):
        lab.assert_close(x, *lab.exact(y, w, table, EPS, interleaved=interleaved))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("tokens", [1, 7, 257])
def test_every_dtype_at_real_widths(lab: Lab, tokens: int, dtype: torch.dtype) -> None:
    x, weight, table = (
        lab.randn(tokens, 24, 128, dtype=dtype),
        lab.randn(128, dtype=dtype, seed=1),
        lab.table(tokens, 128),
    )
    got, _ = qk_norm_rope(x, x, weight, weight, table, EPS)
    lab.assert_close(got, *lab.exact(x, weight, table, EPS, interleaved=True))


@pytest.mark.parametrize("table_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("batch", "first", "second", "heads"),
    [
        (1, 512, 4096, (48, 48)),
        (2, 77, 1030, (48, 48)),
        (1, 0, 64, (48, 48)),
        (3, 5, 0, (48, 48)),
        (1, 512, 4096, (24, 24)),
        (1, 2048, 256, (16, 16)),
        (2, 77, 1024, (28, 7)),
    ],
)
def test_joint_is_bitwise_per_stream_then_cat(
    lab: Lab,
    same_bits: SameBits,
    batch: int,
    first: int,
    second: int,
    heads: tuple[int, int],
    table_dtype: torch.dtype,
) -> None:
    streams = _streams(lab, batch, (first, second), heads, 128)
    for x in streams:
        x[..., :4] = torch.tensor([0.0, -0.0, -0.0, 0.0], device="cuda")
    weights = _weights(lab, 4, 128)
    table = lab.table(batch * (first + second), 128, table_dtype)
    joint = joint_qkv_norm_rope(*streams, *weights, table, EPS)
    rows = table.view(batch, first + second, 128)
    parts = []
    for s, part in ((0, slice(0, first)), (1, slice(first, None))):
        q, k, _ = streams[3 * s : 3 * s + 3]
        got = qk_norm_rope(
            q.flatten(0, 1), k.flatten(0, 1), *weights[2 * s : 2 * s + 2], rows[:, part].flatten(0, 1), EPS
        )
        parts.append([out.view(x.shape) for out, x in zip(got, (q, k), strict=True)])
    assert all(x.is_contiguous() for x in joint)
    assert same_bits(joint[0], torch.cat((parts[0][0], parts[1][0]), dim=1))
    assert same_bits(joint[1], torch.cat((parts[0][1], parts[1][1]), dim=1))
    assert same_bits(joint[2], torch.cat((streams[2], streams[5]), dim=1))


@pytest.mark.parametrize("interleaved", [True, False])
def test_joint_against_its_reference(lab: Lab, *, interleaved: bool) -> None:
    streams, weights = _streams(lab, 2, (64, 300), (6, 6), 128), _weights(lab, 4, 128)
    table = lab.table(2 * 364, 128)
    got = joint_qkv_norm_rope(*streams, *weights, table, EPS, interleaved=interleaved)
    want = reference.joint_qkv_norm_rope(*streams, *weights, table, EPS, interleaved=interleaved)
    for x, y in zip(got[:2], want[:2], strict=True):
        torch.testing.assert_close(x, y, **TOLERANCE)
        # One unit in the last place, where a sum in another order or a contracted product rounds
        # the other way: rarely.
        assert (x != y).float().mean().item() < 1e-3
    assert torch.equal(got[2], want[2])


def test_joint_against_the_chain_of_a_model(lab: Lab) -> None:
    streams, weights = _streams(lab, 2, (128, 1024), (8, 8), 128), _weights(lab, 4, 128)
    q0, k0, v0, q1, k1, v1 = streams
    table = lab.table(1152, 128)
    cos, sin = (t.repeat_interleave(2, -1)[None, :, None] for t in table.chunk(2, dim=-1))

    def chain(x0: torch.Tensor, x1: torch.Tensor, w0: torch.Tensor, w1: torch.Tensor) -> torch.Tensor:
        joined = torch.cat((functional.rms_norm(x0, (128,), w0, EPS), functional.rms_norm(x1, (128,), w1, EPS)), dim=1)
        real, imaginary = joined.unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack((-imaginary, real), dim=-1).flatten(-2).float()
        return (joined.float() * cos + turned * sin).to(joined.dtype)

    got = joint_qkv_norm_rope(*streams, *weights, table.repeat(2, 1), EPS)
    torch.testing.assert_close(got[0], chain(q0, q1, weights[0], weights[2]), **TOLERANCE)
    torch.testing.assert_close(got[1], chain(k0, k1, weights[1], weights[3]), **TOLERANCE)
    assert torch.equal(got[2], torch.cat((v0, v1), dim=1))


@pytest.mark.parametrize("eps", [1e-6, 1e-5])
@pytest.mark.parametrize("table_dtype", [torch.float32, torch.bfloat16])
def test_the_exact_preset_is_bitwise(lab: Lab, same_bits: SameBits, table_dtype: torch.dtype, eps: float) -> None:
    q, k = _packed(lab, 4099, (7, 3), 128)
    weights, table = _weights(lab, 2, 128), lab.table(4099, 128, table_dtype)
    got = qk_norm_rope(q, k, *weights, table, eps, numerics="cuda_order")
    want = reference.qk_norm_rope(q, k, *weights, table, eps, cuda_order=True)
    assert all(same_bits(x, y) for x, y in zip(got, want, strict=True))
    streams = _streams(lab, 2, (77, 1030), (7, 3), 128)
    joint_weights, rows = _weights(lab, 4, 128), lab.table(2 * 1107, 128, table_dtype)
    got3 = joint_qkv_norm_rope(*streams, *joint_weights, rows, eps, numerics="cuda_order")
    want3 = reference.joint_qkv_norm_rope(*streams, *joint_weights, rows, eps, cuda_order=True)
    assert all(same_bits(x, y) for x, y in zip(got3, want3, strict=True))


def _calls(lab: Lab) -> dict[str, Callable[[], tuple[torch.Tensor, ...]]]:
    streams, weights = _streams(lab, 2, (512, 4096), (48, 48), 128), _weights(lab, 4, 128)
    table = lab.table(2 * 4608, 128)
    q, k = (x.flatten(0, 1) for x in streams[3:5])
    return {
        "joint": lambda: joint_qkv_norm_rope(*streams, *weights, table, EPS),
        "per_stream": lambda: qk_norm_rope(q, k, *weights[:2], table[: q.shape[0]], EPS),
    }


@pytest.mark.parametrize("name", ["joint", "per_stream"])
def test_compiled_and_replayed_calls_are_bitwise(lab: Lab, same_bits: SameBits, fresh_dynamo: None, name: str) -> None:
    call = _calls(lab)[name]
    want = call()
    compiled = torch.compile(call, fullgraph=True)
    assert all(same_bits(x, y) for x, y in zip(compiled(), want, strict=True))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    for _ in range(2):
        for x in out:
            x.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert all(same_bits(x, y) for x, y in zip(out, want, strict=True))


def test_one_kernel_serves_all_lengths(lab: Lab) -> None:
    from fused_ops.kernels import norm_rope_kernel

    def built() -> int:
        return sum(len(caches[0]) for caches in norm_rope_kernel.device_caches.values())

    def run(tokens: int) -> None:
        q, k = _packed(lab, tokens, (4, 2), 120)
        qk_norm_rope(q, k, *_weights(lab, 2, 120), lab.table(tokens, 120), EPS)

    run(16)
    before = built()
    for tokens in (1, 2, 17, 32, 333):
        run(tokens)
    assert built() == before


@pytest.mark.parametrize("interleaved", [True, False])
def test_offsets_past_32_bits_per_stream(interleaved: bool) -> None:  # noqa: FBT001 (parametrized)
    # Three tokens 2**30 elements apart: the last starts at 2**31. All ones come out as ones where
    # the angle is 0; anything else would be memory that nobody wrote.
    step, heads, dim = 2**30, 2, 128
    storage = torch.full((2 * step + heads * dim,), float("nan"), dtype=torch.bfloat16, device="cuda")
    x = storage.as_strided((3, heads, dim), (step, dim, 1))
    x.fill_(1.0)
    weight = torch.ones(dim, dtype=torch.bfloat16, device="cuda")
    table = torch.cat((torch.ones(3, dim // 2), torch.zeros(3, dim // 2)), dim=-1).cuda()
    for out in qk_norm_rope(x, x, weight, weight, table, 0.0, interleaved=interleaved):
        assert torch.equal(out, torch.ones_like(out))


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("far", [0, 1])
@pytest.mark.parametrize("axis", ["tokens", "heads"])
def test_offsets_past_32_bits_joint(lab: Lab, far: int, axis: str, interleaved: bool) -> None:  # noqa: FBT001
    step, heads, dim = 2**30, 3, 128
    storage = torch.full((2 * step + 4 * heads * dim,), float("nan"), dtype=torch.bfloat16, device="cuda")
    strides = (0, step, dim, 1) if axis == "tokens" else (0, dim, step, 1)
    x = storage.as_strided((1, 3, heads, dim), strides)
    x.fill_(1.0)
    near = torch.ones(1, 2, heads, dim, dtype=torch.bfloat16, device="cuda")
    streams = ([x] * 3, [near] * 3)
    weights = [torch.ones(dim, dtype=torch.bfloat16, device="cuda")] * 4
    table = torch.cat((torch.ones(5, dim // 2), torch.zeros(5, dim // 2)), dim=-1).cuda()
    out = joint_qkv_norm_rope(*streams[far], *streams[1 - far], *weights, table, 0.0, interleaved=interleaved)
    for y in out:
        assert torch.equal(y, torch.ones_like(y))


def test_outputs_past_32_bits(lab: Lab) -> None:
    # 2**31 elements of query alone: the last token's output lies past a 32-bit offset.
    tokens, heads, dim = 2**19 + 8, 32, 128
    q = lab.randn(1, heads, dim, dtype=torch.bfloat16).expand(tokens, heads, dim)
    k = q[:, :1]
    weight = lab.randn(dim, dtype=torch.bfloat16, seed=1)
    table = lab.table(1, dim).expand(tokens, dim)
    out, _ = qk_norm_rope(q, k, weight, weight, table, EPS)
    assert out.numel() > 2**31
    assert torch.equal(out[-1], out[0])
    assert torch.equal(out[tokens // 2], out[0])
    lab.assert_close(out[-1:], *lab.exact(q[:1], weight, table[:1], EPS, interleaved=True))


def test_another_current_device_is_no_matter(lab: Lab, same_bits: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    x, weight, table = lab.randn(5, 2, 8), lab.randn(8), lab.table(5, 8)
    want = qk_norm_rope(x, x, weight, weight, table, EPS)
    moved = [t.to("cuda:1") for t in (x, x, weight, weight, table)]
    got = qk_norm_rope(*moved, EPS)
    assert all(same_bits(a.cpu(), b.cpu()) for a, b in zip(got, want, strict=True))
