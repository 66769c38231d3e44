"""What another entry guards and accepts is marked as such, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

import compilescope
from compilescope.capture import accepted_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.off = False
        self.scale = 2.5

    def forward(self, image: Tensor) -> Tensor:
        return image * 2 if self.off else image * self.scale


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()

    def forward(self, image: Tensor) -> Tensor:
        return self.layer(image)


def marks(model: nn.Module, *steps: Callable[[], object]) -> dict[str, dict[str, bool]]:
    """Call a compiled model after each step; return by entry what the last call fails, and whether it is marked."""
    model.compile(backend="eager", dynamic=False)
    with compilescope.observe() as scope:
        for step in (lambda: None, *steps):
            step()
            model(torch.ones(2, 4))
    last = scope.recording.recompiles[-1].recompile
    assert last is not None
    return {e.id: {f.source: f.accepted_elsewhere for f in e.failing if not f.consequence_of} for e in last.entries}


def test_attribute_of_a_submodule_that_an_older_entry_accepts_is_marked() -> None:
    model = Model()

    def back_and_new() -> None:
        model.layer.off, model.layer.scale = False, 3.5

    assert marks(model, lambda: setattr(model.layer, "off", True), back_and_new) == {
        "0/0": {"self.layer.scale": False},
        "0/1": {"self.layer.off": True},
    }


def test_grad_mode_that_an_older_entry_accepts_is_marked() -> None:
    model = Model()
    before = torch.is_grad_enabled()

    def back_and_new() -> None:
        torch.set_grad_enabled(before)
        model.layer.scale = 3.5

    try:
        found = marks(model, lambda: torch.set_grad_enabled(not before), back_and_new)
    finally:
        torch.set_grad_enabled(before)
    assert found == {"0/0": {"self.layer.scale": False}, "0/1": {"grad_mode": True, "self.layer.scale": False}}


def test_compilation_goes_on_where_marking_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bool:
        raise RuntimeError

    monkeypatch.setattr(accepted_elsewhere, "_accepts", broken)
    model = Model()
    found = marks(
        model, lambda: setattr(model.layer, "off", True), lambda: vars(model.layer).update(off=False, scale=3.5)
    )
    assert found == {"0/0": {"self.layer.scale": False}, "0/1": {"self.layer.off": False}}


def test_value_that_no_other_entry_guards_is_not_marked() -> None:
    model = Model()
    model.layer.off = True
    assert marks(model, lambda: setattr(model.layer, "off", False)) == {"0/0": {"self.layer.off": False}}
