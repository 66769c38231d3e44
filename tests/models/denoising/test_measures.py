"""Measures of a difference are those of their definitions, and there is none of what is not finite."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
import torch

pytest.importorskip("diffusers", reason="the model is built of diffusers' parts")

import msgspec

from models.denoising import Difference, bitwise, max_abs, measures, psnr, relative_l2

if TYPE_CHECKING:
    from collections.abc import Callable


def test_psnr_of_a_constant_difference_is_known() -> None:
    zero = torch.zeros(3, 8, 8)
    assert psnr(zero + 0.1, zero) == pytest.approx(20.0, abs=1e-5)
    assert psnr(zero + 0.01, zero) == pytest.approx(40.0, abs=1e-5)
    assert psnr(zero + 0.1, zero, peak=10.0) == pytest.approx(40.0, abs=1e-5)
    assert psnr(zero, zero) == math.inf


@pytest.mark.parametrize("measure", [psnr, max_abs, relative_l2, measures.compare])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_on_either_side(measure: Callable[..., object], value: float) -> None:
    good, bad = torch.zeros(4), torch.tensor([0.0, value, 0.0, 0.0])
    for pair in ((good, bad), (bad, good), (bad, bad)):
        with pytest.raises(ValueError, match=r"1 of 4 values of the .* not finite"):
            measure(*pair)


def test_tensors_that_do_not_match_or_are_empty_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        psnr(torch.zeros(2), torch.zeros(1))
    with pytest.raises(ValueError, match="no values"):
        psnr(torch.zeros(0), torch.zeros(0))


def test_norms_and_largest_difference_are_those_of_the_definition() -> None:
    candidate, reference = torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0])
    assert measures.compare(candidate, reference, peak=None) == Difference(
        psnr=pytest.approx(10 * math.log10(4.0**2 / 0.125)), max_abs=0.5, relative_l2=0.1, bitwise=False, peak=4.0
    )
    assert relative_l2(torch.zeros(2), torch.zeros(2)) == 0.0
    assert relative_l2(candidate, torch.zeros(2)) == math.inf


def test_bitwise_counts_signed_zeros_and_dtypes() -> None:
    zero = torch.zeros(2, 2)
    assert bitwise(zero, zero.clone())
    assert not bitwise(zero, -zero)
    assert psnr(zero, -zero) == math.inf
    assert not bitwise(zero, zero.double())
    assert bitwise(zero.t(), zero)


def test_json_has_null_where_images_are_equal_and_never_infinity() -> None:
    encoded = json.loads(msgspec.json.encode(measures.compare(torch.ones(2), torch.ones(2))))
    assert encoded == {"psnr": None, "max_abs": 0.0, "relative_l2": 0.0, "bitwise": True, "peak": 1.0}
