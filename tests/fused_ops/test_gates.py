"""Which path a call takes and why, at every boundary."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fused_ops.launch
from fused_ops import Call, Gate, Path, Reason, decide, min_tokens

CALL = Call("cuda", torch.bfloat16, torch.float32, 128, 128)


@pytest.mark.parametrize("text", [None, "", "  ", "\t"])
def test_unset_or_blank_means_the_default(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    if text is not None:
        monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", text)
    assert min_tokens(2048) == 2048


@pytest.mark.parametrize(("text", "value"), [("0", 0), (" 0 ", 0), ("4096", 4096), ("007", 7)])
def test_a_number_overrides_the_default(monkeypatch: pytest.MonkeyPatch, text: str, value: int) -> None:
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", text)
    assert min_tokens(2048) == value


@pytest.mark.parametrize("text", ["-1", "abc", "1.5", "1e3", "0x10", "1_000", "+5", "\u0663"])
def test_anything_else_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", text)
    with pytest.raises(ValueError, match=r"^FUSED_OPS_MIN_TOKENS must be a non-negative integer, got "):
        min_tokens(0)


def test_the_variable_is_read_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", "5")
    assert min_tokens(1) == 5
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", "6")
    assert min_tokens(1) == 6


def test_a_call_that_meets_no_obstacle_is_fused() -> None:
    decision = decide(CALL)
    assert decision.fused
    assert decision.path is Path.KERNEL
    assert decision.reason is Reason.FUSED


def test_without_triton_the_call_is_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_ops.launch, "TRITON_MISSING", "No module named 'triton'")
    decision = decide(CALL)
    assert (decision.path, decision.reason) == (Path.EAGER, Reason.NO_TRITON)
    assert decision.detail == "Triton cannot be imported: No module named 'triton'"


@pytest.mark.parametrize("device", ["cpu", "meta", "xpu"])
def test_another_device_is_eager(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(fused_ops.launch, "INTERPRETED", False)
    decision = decide(replace(CALL, device=device))
    assert decision.reason is Reason.DEVICE
    assert decision.detail == f"the kernel runs on CUDA tensors, not on {device}"


def test_the_interpreter_takes_cpu_tensors_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_ops.launch, "INTERPRETED", True)
    assert decide(replace(CALL, device="cpu")).fused
    assert decide(replace(CALL, device="meta")).reason is Reason.DEVICE


def test_rocm_is_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.3")
    decision = decide(CALL)
    assert decision.reason is Reason.DEVICE
    assert decision.detail == "the kernel is not built for ROCm"


@pytest.mark.parametrize(
    ("dtype", "table_dtype", "fused"),
    [
        (torch.bfloat16, torch.float32, True),
        (torch.bfloat16, torch.bfloat16, True),
        (torch.float16, torch.float32, True),
        (torch.float16, torch.float16, True),
        (torch.float32, torch.float32, True),
        (torch.float64, torch.float32, False),
        (torch.float64, torch.float64, False),
        (torch.float32, torch.bfloat16, False),
        (torch.bfloat16, torch.float16, False),
        (torch.bfloat16, torch.float64, False),
    ],
)
def test_dtypes(dtype: torch.dtype, table_dtype: torch.dtype, *, fused: bool) -> None:
    decision = decide(replace(CALL, dtype=dtype, table_dtype=table_dtype))
    assert decision.fused is fused
    if not fused:
        assert decision.reason is Reason.DTYPE
        assert decision.detail == f"no kernel for {dtype} with a table of {table_dtype}"


@pytest.mark.parametrize(
    ("head_dim", "rotary_dim", "fused"),
    [
        (256, 256, True),
        (258, 258, False),
        (258, 64, False),
        (2, 2, True),
        (3, 2, True),
        (128, 0, False),
        (128, 2, True),
        (128, 127, False),
        (128, 130, False),
    ],
)
def test_geometry(head_dim: int, rotary_dim: int, *, fused: bool) -> None:
    decision = decide(replace(CALL, head_dim=head_dim, rotary_dim=rotary_dim))
    assert decision.fused is fused
    if not fused:
        assert decision.reason is Reason.GEOMETRY
        assert decision.detail.endswith(f"not {rotary_dim} of {head_dim}")


@pytest.mark.parametrize(("ranks", "fused"), [(None, True), (0, True), (1, True), (2, False), (8, False)])
def test_sequence_parallel_keeps_the_eager_chain(ranks: int | None, *, fused: bool) -> None:
    decision = decide(CALL, Gate((4096,), 0, sequence_parallel_size=ranks))
    assert decision.fused is fused
    if not fused:
        assert decision.reason is Reason.SEQUENCE_PARALLEL
        assert decision.detail == f"the sequence is shared by {ranks} ranks"


@pytest.mark.parametrize(("tokens", "fused"), [(2047, False), (2048, True), (0, False)])
def test_the_token_gate_is_inclusive(tokens: int, *, fused: bool) -> None:
    decision = decide(CALL, Gate((tokens,), 2048))
    assert decision.fused is fused
    if not fused:
        assert decision.reason is Reason.MIN_TOKENS
        assert decision.detail == f"{tokens} tokens are fewer than 2048"


def test_a_gate_of_zero_fuses_even_nothing() -> None:
    assert decide(CALL, Gate((0,), 0)).fused


def test_the_token_gate_adds_the_streams_of_a_joint_call() -> None:
    assert decide(CALL, Gate((1000, 1048), 2048)).fused
    assert decide(CALL, Gate((1000, 1047), 2048)).reason is Reason.MIN_TOKENS


@pytest.mark.parametrize(
    ("streams", "fused"),
    [
        ((512, 4096), False),
        ((4096, 512), False),
        ((2047, 4096), False),
        ((2048, 4096), True),
        ((0, 4096), True),  # an empty stream is on no path
        ((4096, 0), True),
    ],
)
def test_a_joint_call_never_takes_a_short_stream_off_its_own_path(streams: tuple[int, int], *, fused: bool) -> None:
    decision = decide(CALL, Gate(streams, 0, stream_min_tokens=2048))
    assert decision.fused is fused
    if not fused:
        assert decision.reason is Reason.SHORT_STREAM
        assert decision.detail == f"a stream of {min(streams)} tokens is kept eager by the per-stream gate of 2048"


@pytest.mark.parametrize("threshold", [0, 1, 77, 512, 513, 2048, 4608, 4609])
@pytest.mark.parametrize("streams", [(512, 4096), (77, 1024), (0, 512)])
def test_joint_fuses_only_what_each_stream_would_fuse_alone(
    monkeypatch: pytest.MonkeyPatch, streams: tuple[int, int], threshold: int
) -> None:
    for variable in (None, str(threshold)):
        if variable is not None:
            monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", variable)
        joint = decide(CALL, Gate(streams, 0, stream_min_tokens=threshold)).fused
        alone = [decide(CALL, Gate((tokens,), threshold)).fused for tokens in streams if tokens]
        assert not joint or all(alone)
        assert joint == (all(alone) and (variable is None or sum(streams) >= threshold))


def test_the_variable_overrides_both_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate((512, 4096), 0, stream_min_tokens=2048)
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", "0")
    assert decide(CALL, gate).fused
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", "512")
    assert decide(CALL, gate).fused
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", "513")
    assert decide(CALL, gate).reason is Reason.SHORT_STREAM
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", "4609")
    assert decide(CALL, gate).reason is Reason.MIN_TOKENS


def test_what_cannot_run_is_told_before_what_should_not() -> None:
    gate = Gate((1,), 2048, sequence_parallel_size=2)
    assert decide(replace(CALL, dtype=torch.float64), gate).reason is Reason.DTYPE
    assert decide(CALL, gate).reason is Reason.SEQUENCE_PARALLEL


def test_a_malformed_variable_is_refused_only_where_a_gate_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", "many")
    assert decide(CALL).fused
    with pytest.raises(ValueError, match="FUSED_OPS_MIN_TOKENS"):
        decide(CALL, Gate((1,), 0))
