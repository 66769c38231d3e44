"""What the tests of the families share."""

from __future__ import annotations

import pytest

from ...interpreted import interpreted_kernel


@pytest.fixture(autouse=True)
def no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no gate be set from outside."""
    monkeypatch.delenv("FUSED_OPS_MIN_TOKENS", raising=False)


@pytest.fixture
def kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the kernel run on CPU tensors, slowly."""
    pytest.importorskip("triton", reason="the kernel is Triton's")
    import fused_ops.launch

    monkeypatch.setattr(fused_ops.launch, "norm_rope_kernel", interpreted_kernel())
    monkeypatch.setattr(fused_ops.launch, "INTERPRETED", True)
