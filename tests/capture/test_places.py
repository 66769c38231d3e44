"""A finding points at the innermost line that somebody wrote who uses torch, with torch's own line beside it."""

from __future__ import annotations

import collections
import inspect
from traceback import FrameSummary
from typing import TYPE_CHECKING

import pytest
import torch
from diffusers.models import normalization
from torch import Tensor, nn

import compilescope
from compilescope.capture import places

if TYPE_CHECKING:
    from compilescope.record import Recording

LINEAR = inspect.getfile(nn.Linear)
FUNCTIONAL = inspect.getfile(nn.functional)
DIFFUSERS = inspect.getfile(normalization)
PYTHON = inspect.getfile(collections)
POLYFILL = inspect.getfile(torch._dynamo.external_utils)
USER = "/home/somebody/model.py"


def stack(*files: str) -> list[FrameSummary]:
    """Return a stack, outermost first, whose lines are numbered from 1."""
    return [FrameSummary(file, line, "f", lookup_line=False) for line, file in enumerate(files, 1)]


@pytest.mark.parametrize(
    ("files", "user", "inside_torch"),
    [
        ((USER,), 1, None),
        ((USER, LINEAR), 1, 2),
        ((USER, LINEAR, FUNCTIONAL), 1, 3),
        ((USER, DIFFUSERS, LINEAR), 2, 3),
        ((LINEAR, USER, FUNCTIONAL), 2, 3),
        ((USER, PYTHON), 1, None),
        ((USER, LINEAR, PYTHON), 1, 2),
        ((USER, POLYFILL), 1, None),
        ((USER, LINEAR, POLYFILL), 1, 2),
        ((USER, LINEAR, "<frozen importlib>"), 1, 2),
        ((USER, "<eval_with_key>.3"), 1, None),
        ((LINEAR, FUNCTIONAL), 2, None),
        ((LINEAR, POLYFILL), 1, None),
        ((POLYFILL,), 1, None),
        ((PYTHON, FUNCTIONAL), 1, 2),
        ((), None, None),
    ],
)
def test_the_innermost_line_outside_torch_is_the_users(
    files: tuple[str, ...], user: int | None, inside_torch: int | None
) -> None:
    chosen = places.choose(stack(*files))
    assert chosen.user is None if user is None else chosen.user is not None and chosen.user.lineno == user
    assert (chosen.torch is None) if inside_torch is None else chosen.torch is not None
    assert chosen.torch is None or chosen.torch.lineno == inside_torch


def test_what_is_installed_beside_torch_is_the_users() -> None:
    assert not places.is_torch(DIFFUSERS)
    assert places.is_torch(LINEAR)


# --- breaks and errors ----------------------------------------------------------------------------


def line_of(function: object, marked: str) -> int:
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    return first + next(index for index, text in enumerate(lines) if marked in text)


def observed(function: object, *args: object) -> Recording:
    with compilescope.observe() as scope:
        try:
            torch.compile(function, backend="eager")(*args)  # type: ignore[call-overload]
        except Exception:  # noqa: BLE001 (what the user sees is not what is tested)
            return scope.recording
    return scope.recording


def breaks_inside_torch(weight: nn.Parameter) -> Tensor:
    norm: Tensor = nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)  # here
    return norm


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_break_inside_torch_is_at_the_users_line_with_torchs_beside_it() -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    site = observed(breaks_inside_torch, weight).graph_breaks[0]
    assert (site.kind, site.function) == ("data_dependent_branch", "breaks_inside_torch")
    assert site.line == line_of(breaks_inside_torch, "# here")
    assert site.torch_where is not None
    assert site.torch_where.file == "torch/nn/utils/clip_grad.py"


def loops_over_data(image: Tensor) -> Tensor:
    for _ in range(2):
        total = image.sum().item()
        for _ in range(int(total)):  # here
            image = image + 1
    return image


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_break_in_a_loop_shows_what_broke_first() -> None:
    torch._dynamo.config.capture_scalar_outputs = True
    (site,) = observed(loops_over_data, torch.ones(3)).graph_breaks
    assert site.line == line_of(loops_over_data, "# here")
    assert "data-dependent expression" in site.reason.partition(" Explanation:")[0]
    assert "graph break in a for/while loop" in site.reason
    assert site.kind == "item"
    # torch 2.11 still gives such a break an id of its own.
    assert site.registry_id in (None, "GB7000")


def fails_inside_torch(image: Tensor) -> Tensor:
    layer = nn.functional.linear
    return layer(image, torch.ones(7, 5))  # here


@pytest.mark.usefixtures("fresh_dynamo")
def test_an_error_inside_torch_is_at_the_users_line() -> None:
    (failed,) = observed(fails_inside_torch, torch.ones(2, 3)).compilations
    assert failed.error is not None
    assert failed.error.where is not None
    assert failed.error.where.line == line_of(fails_inside_torch, "# here")


class Wrong(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, image: Tensor) -> Tensor:
        out: Tensor = self.layer(image)  # here
        return out


@pytest.mark.usefixtures("fresh_dynamo")
def test_an_error_inside_a_layer_of_torch_has_torchs_line_beside_the_users() -> None:
    (failed,) = observed(Wrong(), torch.ones(2, 3)).compilations
    error = failed.error
    assert error is not None
    assert error.where is not None
    assert error.torch_where is not None
    assert error.where.line == line_of(Wrong, "# here")
    assert error.torch_where.file == "torch/nn/modules/linear.py"
