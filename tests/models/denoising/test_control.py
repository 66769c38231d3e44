"""The control arm reorders one mean in every norm, changes nothing else, and is undone behind."""

from __future__ import annotations

import contextlib

import pytest
import torch

pytest.importorskip("diffusers", reason="the model is built of diffusers' parts")

from diffusers.models.normalization import RMSNorm

from models.denoising import bitwise, control, max_abs, norm_reduction_in_lanes
from models.mammoth_moda2 import build

from .making import SMALL, request, run


def test_reordering_the_norms_moves_the_result_a_little_and_is_undone(model: torch.nn.Module) -> None:
    before = run(model, request())
    with norm_reduction_in_lanes(model) as changed:
        moved = run(model, request())
    assert changed == sum(isinstance(module, RMSNorm) for module in model.modules())
    assert 0 < max_abs(moved, before) < 1e-4
    assert bitwise(run(model, request()), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_but_the_mean_differs_from_diffusers(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("tiny", dtype=dtype, **SMALL)
    before = run(model, request(steps=1))
    monkeypatch.setattr(control, "mean_of_squares", lambda x: x.to(torch.float32).pow(2).mean(-1, keepdim=True))
    with norm_reduction_in_lanes(model):
        assert bitwise(run(model, request(steps=1)), before)


def test_the_mean_in_lanes_is_the_mean() -> None:
    x = torch.randn(3, 96, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(control.mean_of_squares(x)[:, 0], x.double().square().mean(-1).float())
    assert control.mean_of_squares(x.bfloat16()).dtype == torch.float32
    assert control.mean_of_squares(x[:0]).shape == (0, 1)


def test_an_exception_inside_still_undoes_the_control() -> None:
    norm = RMSNorm(16, eps=1e-5)

    def own(x: torch.Tensor) -> torch.Tensor:
        return x

    norm.forward = own
    with contextlib.suppress(KeyError), norm_reduction_in_lanes(norm):
        assert norm.forward is not own
        raise KeyError
    assert norm.forward is own


def test_norms_that_cannot_be_reordered_are_refused_and_left_alone() -> None:
    model = torch.nn.ModuleList([RMSNorm(16, eps=1e-5), RMSNorm(12, eps=1e-5)])
    with pytest.raises(ValueError, match="12 elements"), norm_reduction_in_lanes(model):
        pass
    assert all("forward" not in vars(norm) for norm in model)
    with pytest.raises(ValueError, match="nothing to reorder"), norm_reduction_in_lanes(torch.nn.Linear(8, 8)):
        pass
