"""Every refusal of the public ops, word for word."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fused_ops.launch
from fused_ops import joint_qkv_norm_rope, preset, qk_norm_rope

T, H, KV, D = 4, 3, 2, 8


def _per_stream(**changes: Any) -> None:
    arguments: dict[str, Any] = {
        "q": torch.zeros(T, H, D),
        "k": torch.zeros(T, KV, D),
        "q_weight": torch.zeros(D),
        "k_weight": torch.zeros(D),
        "table": torch.zeros(T, D),
        "eps": 1e-6,
    }
    qk_norm_rope(**{**arguments, **changes})


def _joint(**changes: Any) -> None:
    arguments: dict[str, Any] = {
        **{f"{name}{s}": torch.zeros(2, 1 + s, H if name == "q" else KV, D) for name in "qkv" for s in (0, 1)},
        **{f"{name}{s}_weight": torch.zeros(D) for name in "qk" for s in (0, 1)},
        "table": torch.zeros(6, D),
        "eps": 1e-6,
    }
    joint_qkv_norm_rope(**{**arguments, **changes})


def test_the_arguments_that_the_cases_change_are_fine() -> None:
    _per_stream()
    _joint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.zeros(T, H * D)}, "q must be [tokens, heads, head_dim], got shape [4, 24]"),
        ({"k": torch.zeros(1, T, KV, D)}, "k must be [tokens, heads, head_dim], got shape [1, 4, 2, 8]"),
        ({"head_dim": 16}, "head_dim is 16 but q has heads of 8 elements"),
        (
            {"k": torch.zeros(T + 1, KV, D)},
            "k must have the tokens and head_dim of q, got shapes [4, 3, 8] and [5, 2, 8]",
        ),
        (
            {"k": torch.zeros(T, KV, D + 1)},
            "k must have the tokens and head_dim of q, got shapes [4, 3, 8] and [4, 2, 9]",
        ),
        (
            {"q_weight": torch.zeros(D + 1)},
            "q_weight must be [8], one element for each of a head, got shape [9]",
        ),
        (
            {"k_weight": torch.zeros(1, D)},
            "k_weight must be [8], one element for each of a head, got shape [1, 8]",
        ),
        ({"rotary_dim": 0}, "rotary_dim must be even and in 2..8 (head_dim), got 0"),
        ({"rotary_dim": 5}, "rotary_dim must be even and in 2..8 (head_dim), got 5"),
        ({"rotary_dim": 10}, "rotary_dim must be even and in 2..8 (head_dim), got 10"),
        (
            {"rotary_dim": 4},
            "table must be [tokens, 4] (cos | sin, rotary_dim in all), got shape [4, 8]",
        ),
        (
            {"table": torch.zeros(1, T, D)},
            "table must be [tokens, 8] (cos | sin, rotary_dim in all), got shape [1, 4, 8]",
        ),
        ({"table": torch.zeros(T + 1, D)}, "table must have a row for each of 4 tokens, got 5 rows"),
        ({"k": torch.zeros(T, KV, D, device="meta")}, "k is on meta but q is on cpu"),
        ({"q_weight": torch.zeros(D, device="meta")}, "q_weight is on meta but q is on cpu"),
        ({"table": torch.zeros(T, D, device="meta")}, "table is on meta but q is on cpu"),
        ({"numerics": "exact"}, "numerics must be 'fast' or 'cuda_order', got 'exact'"),
    ],
)
def test_per_stream_value_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared below)
        _per_stream(**changes)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"q": torch.zeros(T, H, D).double()},
            "q must be bfloat16, float16 or float32, got torch.float64",
        ),
        ({"k": torch.zeros(T, KV, D).half()}, "k is torch.float16 but q is torch.float32"),
        (
            {"q_weight": torch.zeros(D).half()},
            "q_weight must be torch.float32 or torch.float32 as q, got torch.float16",
        ),
        ({"k_weight": torch.zeros(D).half()}, "k_weight is torch.float16 but q_weight is torch.float32"),
        (
            {"table": torch.zeros(T, D).bfloat16()},
            "table must be torch.float32 or torch.float32 as q, got torch.bfloat16",
        ),
        (
            {
                "q": torch.zeros(T, H, D).half(),
                "k": torch.zeros(T, KV, D).half(),
                "table": torch.zeros(T, D).bfloat16(),
            },
            "table must be torch.float32 or torch.float16 as q, got torch.bfloat16",
        ),
    ],
)
def test_per_stream_type_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as error:
        _per_stream(**changes)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q0": torch.zeros(2, H, D)}, "q0 must be [batch, seq, heads, head_dim], got shape [2, 3, 8]"),
        ({"v1": torch.zeros(2, KV, D)}, "v1 must be [batch, seq, heads, head_dim], got shape [2, 2, 8]"),
        (
            {"k0": torch.zeros(2, 3, KV, D)},
            (
                "q0, k0, v0 must share batch, seq and head_dim, and the last two their heads, "
                "got shapes [2, 1, 3, 8], [2, 3, 2, 8] and [2, 1, 2, 8]"
            ),
        ),
        (
            {"v1": torch.zeros(2, 2, KV + 1, D)},
            (
                "q1, k1, v1 must share batch, seq and head_dim, and the last two their heads, "
                "got shapes [2, 2, 3, 8], [2, 2, 2, 8] and [2, 2, 3, 8]"
            ),
        ),
        (
            {"q1": torch.zeros(2, 2, H + 1, D)},
            "q0 and q1 must share batch, heads and head_dim, got shapes [2, 1, 3, 8] and [2, 2, 4, 8]",
        ),
        (
            {"k1": torch.zeros(2, 2, 1, D), "v1": torch.zeros(2, 2, 1, D)},
            "k0 and k1 must share batch, heads and head_dim, got shapes [2, 1, 2, 8] and [2, 2, 1, 8]",
        ),
        (
            {f"{name}1": torch.zeros(1, 2, H if name == "q" else KV, D) for name in "qkv"},
            "q0 and q1 must share batch, heads and head_dim, got shapes [2, 1, 3, 8] and [1, 2, 3, 8]",
        ),
        (
            {"k1_weight": torch.zeros(4)},
            "k1_weight must be [8], one element for each of a head, got shape [4]",
        ),
        ({"table": torch.zeros(3, D)}, "table must have a row for each of 6 tokens, got 3 rows"),
        ({"v1": torch.zeros(2, 2, KV, D, device="meta")}, "v1 is on meta but q0 is on cpu"),
        ({"numerics": ""}, "numerics must be 'fast' or 'cuda_order', got ''"),
    ],
)
def test_joint_value_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared below)
        _joint(**changes)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"v1": torch.zeros(2, 2, KV, D).half()}, "v1 is torch.float16 but q0 is torch.float32"),
        ({"k1_weight": torch.zeros(D).half()}, "k1_weight is torch.float16 but q0_weight is torch.float32"),
    ],
)
def test_joint_type_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as error:
        _joint(**changes)
    assert str(error.value) == message


EXACT = {
    "q": torch.zeros(T, H, 128).bfloat16(),
    "k": torch.zeros(T, KV, 128).bfloat16(),
    "q_weight": torch.zeros(128),
    "k_weight": torch.zeros(128),
    "table": torch.zeros(T, 128),
    "numerics": "cuda_order",
}


def test_the_exact_preset_is_refused_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_ops.launch, "INTERPRETED", False)
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared below)
        _per_stream(**EXACT)
    assert str(error.value) == "numerics='cuda_order' needs the kernel, but the kernel runs on CUDA tensors, not on cpu"


@pytest.mark.parametrize(
    ("changes", "got"),
    [
        (
            {"q": EXACT["q"].half(), "k": EXACT["k"].half()},
            "torch.float16, head_dim=128, rotary_dim=128, interleaved=True",
        ),
        (
            {"table": torch.zeros(T, 96), "rotary_dim": 96},
            "torch.bfloat16, head_dim=128, rotary_dim=96, interleaved=True",
        ),
        ({"interleaved": False}, "torch.bfloat16, head_dim=128, rotary_dim=128, interleaved=False"),
        (
            {
                "q": torch.zeros(T, H, 64).bfloat16(),
                "k": torch.zeros(T, KV, 64).bfloat16(),
                "q_weight": torch.zeros(64),
                "k_weight": torch.zeros(64),
                "table": torch.zeros(T, 64),
            },
            "torch.bfloat16, head_dim=64, rotary_dim=64, interleaved=True",
        ),
    ],
)
def test_the_exact_preset_is_refused_where_it_is_not_defined(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], got: str
) -> None:
    monkeypatch.setattr(fused_ops.launch, "INTERPRETED", True)  # only the decision matters: nothing is launched
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared below)
        _per_stream(**{**EXACT, **changes})
    assert str(error.value) == (
        "numerics='cuda_order' is defined for bfloat16 heads of 128 elements, all rotated, interleaved; got " + got
    )


def test_preset_names() -> None:
    assert preset("fast").fp_fusion
    assert not preset("fast").cuda_order
    assert preset("cuda_order").cuda_order
    assert not preset("cuda_order").fp_fusion


@pytest.mark.parametrize(
    ("positions", "batch", "message"),
    [
        (2**31, 1, "1 x 2147483648 tokens in 1 groups of heads exceed the grid of one launch"),
        (1, 65_536, "65536 x 1 tokens in 1 groups of heads exceed the grid of one launch"),
    ],
)
def test_a_grid_that_does_not_fit_is_refused(positions: int, batch: int, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared below)
        fused_ops.launch._grid(positions, batch, 1)
    assert str(error.value) == message
    assert fused_ops.launch._grid(2**31 - 1, 65_535, 1) == (2**31 - 1, 65_535)
