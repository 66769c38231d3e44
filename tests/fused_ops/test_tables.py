"""Tables: every source of frequencies becomes the same rows, and a gate may say no."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import fused_ops.launch
from fused_ops import Reason, Repeats, pack_table, qk_norm_rope, rope_table, rope_table_from_complex

if TYPE_CHECKING:
    from tests.fused_ops.conftest import Lab


@pytest.fixture
def angles(lab: Lab) -> torch.Tensor:
    """Angles of 5 positions and 3 pairs."""
    return lab.randn(5, 3)


def test_all_sources_give_the_same_rows(angles: torch.Tensor) -> None:
    cos, sin = angles.cos(), angles.sin()
    plain = rope_table(cos, sin)
    assert torch.equal(plain, torch.cat((cos, sin), dim=-1))
    assert torch.equal(rope_table_from_complex(torch.complex(cos, sin)), plain)
    pairs = rope_table(cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1), repeats=Repeats.PAIRS)
    assert torch.equal(pairs, plain)
    halves = rope_table(cos.repeat(1, 2), sin.repeat(1, 2), repeats=Repeats.HALVES)
    assert torch.equal(halves, plain)


def test_pairs_keep_the_even_lanes(angles: torch.Tensor) -> None:
    lanes = torch.stack((angles, angles + 1), dim=-1).flatten(-2)
    assert torch.equal(rope_table(lanes, lanes, repeats=Repeats.PAIRS)[:, :3], angles)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtype_is_the_coefficients(angles: torch.Tensor, dtype: torch.dtype) -> None:
    table = rope_table(angles.cos().double(), angles.sin().double(), dtype=dtype)
    assert table.dtype == dtype
    assert torch.equal(table[:, :3], angles.cos().double().to(dtype))


def test_a_batch_repeats_the_rows_exactly(angles: torch.Tensor) -> None:
    one = rope_table(angles.cos(), angles.sin())
    three = rope_table(angles.cos(), angles.sin(), batch=3)
    assert three.is_contiguous()
    assert torch.equal(three.view(3, 5, 6), one.expand(3, 5, 6))


def test_a_batched_source_keeps_its_batch(lab: Lab) -> None:
    angles = lab.randn(2, 5, 3)
    table = rope_table(angles.cos(), angles.sin())
    assert torch.equal(table.view(2, 5, 6)[1, :, :3], angles[1].cos())


def test_identity_rows_follow_each_entry_and_do_not_rotate(lab: Lab, angles: torch.Tensor) -> None:
    table = rope_table(angles.cos(), angles.sin(), batch=2, identity_rows=4).view(2, 9, 6)
    assert torch.equal(table[:, 5:, :3], torch.ones(2, 4, 3, device=lab.device))
    assert torch.equal(table[:, 5:, 3:], torch.zeros(2, 4, 3, device=lab.device))
    x = lab.randn(9, 2, 6)
    weight = torch.ones(6, device=lab.device)
    out, _ = qk_norm_rope(x, x, weight, weight, table[0], 1e-6)
    still, _ = qk_norm_rope(x, x, weight, weight, rope_table(0 * angles[:1] + 1, 0 * angles[:1], batch=9), 1e-6)
    assert torch.equal(out[5:], still[5:])
    assert not torch.equal(out[:5], still[:5])


@pytest.mark.parametrize(
    ("cos", "sin", "options", "message"),
    [
        ((5, 3), (5, 4), {}, r"cos and sin must both be \[S, R / 2\] or \[B, S, R / 2\], got \[5, 3\] and \[5, 4\]"),
        ((5,), (5,), {}, r"cos and sin must both be .* got \[5\] and \[5\]"),
        ((5, 3), (5, 3), {"repeats": Repeats.PAIRS}, "repeated cosines come in twos, got 3 a row"),
        ((5, 3), (5, 3), {"repeats": Repeats.HALVES}, "repeated cosines come in twos, got 3 a row"),
        ((5, 3), (5, 3), {"identity_rows": -1}, "batch=1, identity_rows=-1 do not fit"),
        ((5, 3), (5, 3), {"batch": 0}, "batch=0, identity_rows=0 do not fit"),
        ((2, 5, 3), (2, 5, 3), {"batch": 2}, r"batch=2, .* cosines of shape \[2, 5, 3\]"),
    ],
)
def test_misfits_are_refused(
    cos: tuple[int, ...], sin: tuple[int, ...], options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        rope_table(torch.zeros(cos), torch.zeros(sin), **options)


def test_real_frequencies_are_not_taken_for_complex() -> None:
    with pytest.raises(ValueError, match=r"frequencies must be complex, got torch\.float32"):
        rope_table_from_complex(torch.zeros(5, 3))


def _pack(angles: torch.Tensor, **options: object):  # noqa: ANN202 (a Packed, as its arguments say)
    return pack_table(
        (angles.cos(), angles.sin()),
        **{"head_dim": 128, "activation_dtype": torch.bfloat16, "min_tokens": 0, **options},
    )


def test_a_packed_table_is_the_plain_one(angles: torch.Tensor) -> None:
    packed = _pack(angles, batch=2, identity_rows=1, dtype=torch.bfloat16)
    assert packed.decision.fused
    assert packed.table is not None
    assert torch.equal(
        packed.table, rope_table(angles.cos(), angles.sin(), batch=2, identity_rows=1, dtype=torch.bfloat16)
    )
    frequencies = torch.complex(angles.cos(), angles.sin())
    same = pack_table(frequencies, head_dim=8, activation_dtype=torch.float32, min_tokens=0)
    assert same.table is not None
    assert torch.equal(same.table, rope_table(angles.cos(), angles.sin()))


@pytest.mark.parametrize(("gate", "fused"), [(11, False), (10, True)])
def test_the_gate_counts_the_whole_batch(angles: torch.Tensor, gate: int, *, fused: bool) -> None:
    packed = _pack(angles, batch=2, min_tokens=gate)
    assert (packed.table is not None) is fused
    assert packed.decision.reason is (Reason.FUSED if fused else Reason.MIN_TOKENS)


@pytest.mark.parametrize(("gate", "fused"), [(15, False), (14, True)])
def test_the_gate_counts_identity_rows(angles: torch.Tensor, gate: int, *, fused: bool) -> None:
    assert (_pack(angles, batch=2, identity_rows=2, min_tokens=gate).table is not None) is fused


def test_a_batched_source_counts_its_batch(lab: Lab) -> None:
    assert _pack(lab.randn(2, 5, 3), min_tokens=10).table is not None
    assert _pack(lab.randn(2, 5, 3), min_tokens=11).table is None


@pytest.mark.parametrize(("variable", "fused"), [("11", False), ("10", True), ("0", True), ("", False)])
def test_the_variable_overrides_the_model_both_ways(
    angles: torch.Tensor, monkeypatch: pytest.MonkeyPatch, variable: str, *, fused: bool
) -> None:
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", variable)
    assert (_pack(angles, batch=2, min_tokens=4096).table is not None) is fused


@pytest.mark.parametrize(("ranks", "fused"), [(None, True), (0, True), (1, True), (2, False), (8, False)])
def test_sequence_parallel(angles: torch.Tensor, ranks: int | None, *, fused: bool) -> None:
    packed = _pack(angles, sequence_parallel_size=ranks)
    assert (packed.table is not None) is fused
    if not fused:
        assert packed.decision.reason is Reason.SEQUENCE_PARALLEL


def test_a_joint_table_respects_the_gate_of_its_streams(angles: torch.Tensor) -> None:
    packed = _pack(angles, batch=2, streams=(1, 4), stream_min_tokens=3)
    assert packed.decision.reason is Reason.SHORT_STREAM
    assert packed.decision.detail.startswith("a stream of 2 tokens")
    assert _pack(angles, batch=2, streams=(1, 4), stream_min_tokens=2).table is not None


def test_streams_must_add_up(angles: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"streams \(2, 4\) do not add up to the table's 5 rows"):
        _pack(angles, streams=(2, 4))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"head_dim": 512}, Reason.GEOMETRY),
        ({"activation_dtype": torch.float64}, Reason.DTYPE),
        ({"activation_dtype": torch.float16, "dtype": torch.bfloat16}, Reason.DTYPE),
    ],
)
def test_no_table_where_there_is_no_kernel(angles: torch.Tensor, options: dict[str, object], reason: Reason) -> None:
    packed = _pack(angles, **options)
    assert packed.table is None
    assert packed.decision.reason is reason


def test_no_table_on_the_cpu(angles: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_ops.launch, "INTERPRETED", False)
    packed = _pack(angles.cpu())
    assert packed.table is None
    assert packed.decision.reason is Reason.DEVICE


def test_repeats_halve_the_rotary_dim(angles: torch.Tensor) -> None:
    wide = angles.repeat_interleave(2, -1)
    packed = _pack(wide, head_dim=6, repeats=Repeats.PAIRS)
    assert packed.table is not None
    assert packed.table.shape == (5, 6)
    assert _pack(wide, head_dim=6).decision.reason is Reason.GEOMETRY
