"""What the kernels compute, against float64, over shapes, strides, dtypes and pairings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fused_ops import count_launches, joint_qkv_norm_rope, qk_norm_rope

if TYPE_CHECKING:
    from tests.fused_ops.conftest import Lab

LAYOUTS = st.sampled_from(("contiguous", "packed", "heads_first", "dim_first", "stepped", "offset", "shared"))
DTYPES = st.sampled_from((torch.bfloat16, torch.float16, torch.float32))
EPS = st.sampled_from((1e-6, 1e-5, 0.5))
# No shrinking: in the interpreter it would take minutes, and the examples are small anyway.
PROPERTY = settings(max_examples=25, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))


@st.composite
def geometries(draw: Any) -> dict[str, Any]:
    """Draw everything but the tokens: heads, dims, dtypes, pairing."""
    dim = draw(st.one_of(st.integers(2, 40), st.sampled_from((64, 96, 120, 128, 256))))
    dtype = draw(DTYPES)
    return {
        "dim": dim,
        "rotary": draw(st.one_of(st.just(dim - dim % 2), st.integers(1, dim // 2).map(lambda n: 2 * n))),
        "q_heads": draw(st.integers(1, 6)),
        "kv_heads": draw(st.integers(1, 3)),
        "dtype": dtype,
        "table_dtype": draw(st.sampled_from((dtype, torch.float32))),
        "weight_dtype": draw(st.sampled_from((dtype, torch.float32))),
        "interleaved": draw(st.booleans()),
        "eps": draw(EPS),
        "table_layout": draw(st.sampled_from(("contiguous", "padded", "stepped", "transposed"))),
        "seed": draw(st.integers(0, 2**16)),
    }


@given(geometry=geometries(), tokens=st.integers(0, 5), q_layout=LAYOUTS, k_layout=LAYOUTS)
@PROPERTY
def test_per_stream_is_within_its_rounding_of_float64(
    lab: Lab, geometry: dict[str, Any], tokens: int, q_layout: str, k_layout: str
) -> None:
    g, dim, seed = geometry, geometry["dim"], geometry["seed"]
    q = lab.laid_out(q_layout, (tokens, g["q_heads"], dim), g["dtype"], seed)
    k = lab.laid_out(k_layout, (tokens, g["kv_heads"], dim), g["dtype"], seed + 1)
    q_weight = lab.randn(dim, dtype=g["weight_dtype"], seed=seed + 2)
    k_weight = lab.randn(dim, dtype=g["weight_dtype"], seed=seed + 3)
    table = lab.table(tokens, g["rotary"], g["table_dtype"], seed + 4, g["table_layout"])
    with count_launches() as counts:
        out = qk_norm_rope(
            q, k, q_weight, k_weight, table, g["eps"], rotary_dim=g["rotary"], interleaved=g["interleaved"]
        )
    assert counts.total == (tokens > 0)
    for got, x, weight in zip(out, (q, k), (q_weight, k_weight), strict=True):
        assert got.is_contiguous()
        assert got.dtype == g["dtype"]
        assert got.shape == x.shape
        lab.assert_close(got, *lab.exact(x, weight, table, g["eps"], interleaved=g["interleaved"]))


@given(
    geometry=geometries(),
    batch=st.integers(1, 2),
    first=st.integers(0, 3),
    second=st.integers(0, 3),
    layouts=st.lists(LAYOUTS, min_size=6, max_size=6),
)
@PROPERTY
def test_joint_is_within_its_rounding_of_float64_and_copies_values(
    lab: Lab, geometry: dict[str, Any], batch: int, first: int, second: int, layouts: list[str]
) -> None:
    g, dim, seed = geometry, geometry["dim"], geometry["seed"]
    heads = (g["q_heads"], g["kv_heads"], g["kv_heads"])
    streams = [
        lab.laid_out(layouts[3 * s + i], (batch, tokens, heads[i], dim), g["dtype"], seed + 3 * s + i)
        for s, tokens in enumerate((first, second))
        for i in range(3)
    ]
    weights = [lab.randn(dim, dtype=g["weight_dtype"], seed=seed + 10 + i) for i in range(4)]
    table = lab.table(batch * (first + second), g["rotary"], g["table_dtype"], seed + 20, g["table_layout"])
    with count_launches() as counts:
        out = joint_qkv_norm_rope(
            *streams, *weights, table, g["eps"], rotary_dim=g["rotary"], interleaved=g["interleaved"]
        )
    assert counts.by_op == ({"joint_qkv_norm_rope": 1} if first + second else {})
    rows = table.view(batch, first + second, g["rotary"])
    for i, got in enumerate(out):
        assert got.is_contiguous()
        assert got.shape == (batch, first + second, heads[i], dim)
        if i == 2:
            assert torch.equal(got, torch.cat((streams[2], streams[5]), dim=1))
            continue
        for b in range(batch):
            for part, x, weight in (
                (slice(0, first), streams[i][b], weights[i]),
                (slice(first, None), streams[3 + i][b], weights[2 + i]),
            ):
                exact = lab.exact(x, weight, rows[b, part], g["eps"], interleaved=g["interleaved"])
                lab.assert_close(got[b, part], *exact)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("batch", "first", "second"), [(1, 2, 3), (2, 3, 2), (1, 0, 4), (3, 2, 0)])
def test_joint_is_bitwise_per_stream_then_cat(
    lab: Lab, same_bits: Any, batch: int, first: int, second: int, dtype: torch.dtype, *, interleaved: bool
) -> None:
    dim, rotary, heads = 24, 16, (5, 2, 2)
    streams = [
        lab.laid_out("packed", (batch, tokens, heads[i], dim), dtype, 3 * s + i)
        for s, tokens in enumerate((first, second))
        for i in range(3)
    ]
    for x in streams:  # zeros of both signs must come through as they are
        x[..., :3] = torch.tensor([0.0, -0.0, -0.0], dtype=dtype)
        x[..., 18:20] = torch.tensor([-0.0, 0.0], dtype=dtype)
    weights = [lab.randn(dim, dtype=dtype, seed=10 + i) for i in range(4)]
    table = lab.table(batch * (first + second), rotary)
    options = {"rotary_dim": rotary, "interleaved": interleaved}
    joint = joint_qkv_norm_rope(*streams, *weights, table, 1e-6, **options)
    rows = table.view(batch, first + second, rotary)
    parts = []
    for s, part in ((0, slice(0, first)), (1, slice(first, None))):
        q, k, _ = streams[3 * s : 3 * s + 3]
        flat = [x.flatten(0, 1) for x in (q, k)]
        got = qk_norm_rope(*flat, *weights[2 * s : 2 * s + 2], rows[:, part].flatten(0, 1), 1e-6, **options)
        parts.append([out.view(x.shape) for out, x in zip(got, (q, k), strict=True)])
    assert same_bits(joint[0], torch.cat((parts[0][0], parts[1][0]), dim=1))
    assert same_bits(joint[1], torch.cat((parts[0][1], parts[1][1]), dim=1))
    assert same_bits(joint[2], torch.cat((streams[2], streams[5]), dim=1))
    assert torch.signbit(joint[2]).logical_and(joint[2] == 0).any()


@pytest.mark.parametrize("interleaved", [True, False])
def test_the_part_that_is_not_rotated_keeps_infinities_and_signed_zeros(
    lab: Lab, same_bits: Any, *, interleaved: bool
) -> None:
    x = lab.randn(3, 2, 12)
    x[..., 8:] = torch.tensor([-0.0, 0.0, -0.0, 0.0])
    weight = torch.ones(12, device=lab.device)
    weight[9] = float("-inf")
    table = lab.table(3, 8)
    out, _ = qk_norm_rope(x, x, weight, weight, table, 1e-6, rotary_dim=8, interleaved=interleaved)
    zeros = out[..., [8, 10, 11]]
    assert same_bits(zeros, torch.tensor([-0.0, -0.0, 0.0], device=lab.device).expand(3, 2, 3).contiguous())
    assert out[..., 9].isnan().all()  # zero times infinity, and nobody else caught it
    assert out[..., :8].isfinite().all()


def test_activations_are_rounded_between_norm_and_rotation(lab: Lab) -> None:
    # 1 + 2**-9 rounds to 1 in bfloat16, so after a turn by 45 degrees the pair's difference is 0
    # exactly if the norm was rounded first, and 2**-9 * cos 45 if it was not.
    x = torch.ones(1, 1, 2, dtype=torch.bfloat16, device=lab.device)
    weight = torch.tensor([1.0, 1 + 2.0**-9], device=lab.device)
    table = torch.full((1, 2), 0.5**0.5, device=lab.device)
    out, _ = qk_norm_rope(x, x, weight, weight, table, 0.0)
    assert out[0, 0, 0].item() == 0.0


def test_coefficients_of_a_bfloat16_table_are_used_as_they_are(lab: Lab) -> None:
    q = lab.randn(4, 2, 8)
    weight = torch.ones(8, device=lab.device)
    table = lab.table(4, 8)
    with pytest.raises(TypeError, match=r"table must be torch\.float32"):
        qk_norm_rope(q, q, weight, weight, table.bfloat16(), 1e-6)
    half = q.bfloat16()
    coarse = table.bfloat16()
    a, _ = qk_norm_rope(half, half, weight, weight, coarse, 1e-6)
    b, _ = qk_norm_rope(half, half, weight, weight, coarse.float(), 1e-6)
    c, _ = qk_norm_rope(half, half, weight, weight, table, 1e-6)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
