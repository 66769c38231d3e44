"""A stand-in for ``torch.compile`` that keeps what it is called with."""

from __future__ import annotations

import pytest
import torch

from .making import Calls


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Compile nothing in this test, and keep the keyword arguments."""
    recorder = Calls()
    monkeypatch.setattr(torch, "compile", recorder)
    return recorder
