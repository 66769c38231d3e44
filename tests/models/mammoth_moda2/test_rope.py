"""Coordinates of every kind of token, and the rotation by them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from fused_ops import Repeats, reference, rope_table  # noqa: E402 (behind the skips)
from models.mammoth_moda2.rope import (  # noqa: E402
    Grid,
    Rotary,
    axis_tables,
    image_positions,
    look_up,
    rotate,
    text_positions,
    with_table,
)
from models.mammoth_moda2.sequence import Sample  # noqa: E402

CPU = torch.device("cpu")
TABLES = axis_tables((4, 2, 2), (64, 64, 64))


def test_text_stands_on_the_diagonal() -> None:
    assert text_positions(3, CPU).tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]


def test_image_has_one_position_and_counts_rows_and_columns() -> None:
    assert image_positions(Grid(2, 3), 7, CPU).tolist() == [
        [7, 0, 0], [7, 0, 1], [7, 0, 2],
        [7, 1, 0], [7, 1, 1], [7, 1, 2],
    ]  # fmt: skip


def test_each_image_moves_the_next_by_its_longer_side() -> None:
    sample = Sample(text=5, references=(Grid(2, 3), Grid(4, 1)), image=Grid(1, 2))
    first, second = sample.reference_positions(CPU)
    assert (first[0, 0], second[0, 0], sample.image_positions(CPU)[0, 0]) == (5, 8, 12)
    assert sample.extent == (13, 5, 5)
    joint = sample.joint_positions(CPU)
    assert joint.shape[0] == sample.tokens == 5 + 6 + 4 + 2
    assert joint.tolist() == torch.cat([text_positions(5, CPU), first, second, sample.image_positions(CPU)]).tolist()


def test_angles_are_position_over_theta_to_the_axis() -> None:
    rotary = look_up(TABLES, [image_positions(Grid(3, 5), 7, CPU)], 15)
    token = 1 * 5 + 3
    angles = [7.0, 7.0 * 10000**-0.5, 1.0, 3.0]
    expected = torch.tensor(angles, dtype=torch.float64).repeat_interleave(2)
    torch.testing.assert_close(rotary.cos[0, token].double(), expected.cos(), rtol=0, atol=1e-6)
    torch.testing.assert_close(rotary.sin[0, token].double(), expected.sin(), rtol=0, atol=1e-6)


def test_rows_behind_a_sample_are_zero_and_nothing_is_a_view() -> None:
    rotary = look_up(TABLES, [text_positions(2, CPU), text_positions(5, CPU)], 5)
    for part in (rotary.cos, rotary.sin):
        assert part.shape == (2, 5, 8)
        assert not part[0, 2:].any()
        assert part.is_contiguous()
        assert part._base is None


@given(tokens=st.integers(0, 5), heads=st.integers(1, 3), seed=st.integers(0, 99))
def test_rotation_is_complex_multiplication(tokens: int, heads: int, seed: int) -> None:
    x = torch.randn(1, tokens, heads, 8, generator=torch.Generator().manual_seed(seed))
    rotary = look_up(TABLES, [text_positions(tokens, CPU)], tokens)
    turn = torch.complex(rotary.cos[..., 0::2], rotary.sin[..., 0::2])[:, :, None]
    expected = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turn).flatten(-2)
    torch.testing.assert_close(rotate(x, rotary), expected)


def test_unequal_lanes_of_a_pair_are_each_used() -> None:
    """In production both lanes hold the same; a block must not rely on it."""
    x, cos, sin = torch.tensor([[[[2.0, 3.0]]]]), torch.tensor([[[5.0, 7.0]]]), torch.tensor([[[11.0, 13.0]]])
    assert rotate(x, Rotary(cos, sin)).flatten().tolist() == [2 * 5 - 3 * 11, 2 * 13 + 3 * 7]


def test_eager_chain_is_the_kernel_s_reference_of_the_packed_table() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(6, 2, 8, generator=generator), torch.randn(8, generator=generator)
    rotary = look_up(TABLES, [text_positions(6, CPU)], 6)
    table = rope_table(rotary.cos, rotary.sin, repeats=Repeats.PAIRS)
    normed = reference.rms_norm(x, weight, 1e-5)
    fused = reference.norm_rope(x, weight, table, 1e-5)
    torch.testing.assert_close(rotate(normed[None], rotary)[0], fused)


def test_table_is_packed_only_where_the_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    rotary = look_up(TABLES, [text_positions(6, CPU)], 6)
    monkeypatch.setattr("fused_ops.launch.INTERPRETED", False)
    assert with_table(rotary, activation_dtype=torch.bfloat16).table is None
    monkeypatch.setattr("fused_ops.launch.INTERPRETED", True)
    packed = with_table(rotary, activation_dtype=torch.bfloat16).table
    assert packed is not None
    assert (packed.shape, packed.dtype) == ((6, 8), torch.float32)
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", "7")
    assert with_table(rotary, activation_dtype=torch.bfloat16).table is None
