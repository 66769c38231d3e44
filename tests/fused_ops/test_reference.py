"""The eager references: each rounding order does what its name says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn import functional

from fused_ops import CUDA_ORDER, Rounding, launch, qk_norm_rope, reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fused_ops.conftest import Lab

EPS = 1e-6


def _by_hand(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate neighbours as diffusers does: repeated coefficients, float32 products, one rounding."""
    real, imaginary = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((-imaginary, real), dim=-1).flatten(-2).float()
    c, s = (t.repeat_interleave(2, -1)[:, None] for t in (cos, sin))
    return (x.float() * c + turned * s).to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_between_is_torchs_norm_and_diffusers_rotation(lab: Lab, dtype: torch.dtype) -> None:
    x, weight, table = lab.randn(7, 3, 16, dtype=dtype), lab.randn(16, dtype=dtype, seed=1), lab.table(7, 16)
    want = _by_hand(functional.rms_norm(x, (16,), weight, EPS), *table.chunk(2, dim=-1))
    torch.testing.assert_close(reference.norm_rope(x, weight, table, EPS), want)


def test_half_split_pairs_are_half_the_rotary_dim_apart(lab: Lab) -> None:
    x, weight, table = lab.randn(7, 3, 16), lab.randn(16, seed=1), lab.table(7, 12)
    normed = functional.rms_norm(x, (16,), weight, EPS)
    as_complex = torch.complex(normed[..., :6], normed[..., 6:12])
    turned = as_complex * torch.complex(*table.chunk(2, dim=-1))[:, None]
    want = torch.cat((turned.real, turned.imag, normed[..., 12:]), dim=-1)
    torch.testing.assert_close(reference.norm_rope(x, weight, table, EPS, interleaved=False), want)


def test_rounding_orders_differ_where_they_say() -> None:
    # The second element is 1 + 2**-9 after the norm, which bfloat16 rounds to 1. A turn by 45
    # degrees then leaves exactly 0 as the difference of the pair, unless the norm was not rounded.
    x = torch.ones(1, 1, 2, dtype=torch.bfloat16)
    weight = torch.tensor([1.0, 1 + 2.0**-9])
    table = torch.full((1, 2), 0.5**0.5)
    out = {r: reference.norm_rope(x, weight, table, 0.0, rounding=r)[0, 0].tolist() for r in Rounding}
    assert out[Rounding.BETWEEN][0] == 0.0
    assert out[Rounding.ONCE][0] == pytest.approx(-(2.0**-9) * 0.5**0.5, rel=2.0**-8)
    assert out[Rounding.EVERY_STEP][0] == 0.0
    # cos 45 rounds down to 0.70703125 in bfloat16; twice that is exact there.
    assert out[Rounding.EVERY_STEP][1] == 2 * 0.70703125
    assert out[Rounding.BETWEEN][1] == torch.tensor(2 * 0.5**0.5).bfloat16().item() == 1.4140625


def test_every_step_rounds_each_product() -> None:
    # 1.0078125 squared is 1.01568603515625, which bfloat16 rounds to 1.015625 before the
    # subtraction; float32 keeps 2**-14 more.
    step = 1 + 2.0**-7
    x = torch.full((1, 1, 2), 1.0, dtype=torch.bfloat16)
    weight = torch.tensor([step, 1.015625])
    table = torch.tensor([[step, 1.0]])
    every = reference.norm_rope(x, weight, table, 0.0, rounding=Rounding.EVERY_STEP)[0, 0, 0].item()
    between = reference.norm_rope(x, weight, table, 0.0)[0, 0, 0].item()
    assert every == 0.0
    assert between == 2.0**-14


def test_orders_agree_without_rounding(lab: Lab) -> None:
    x, weight, table = lab.randn(5, 2, 8), lab.randn(8, seed=1), lab.table(5, 8)
    outs = [reference.norm_rope(x, weight, table, EPS, rounding=r) for r in Rounding]
    assert torch.equal(outs[0], outs[1])
    assert torch.equal(outs[0], outs[2])


def test_the_cuda_order_adds_lane_by_lane() -> None:
    # In float32 1e8 + 1 + 1 + ... loses the ones, while ones added first survive: the result tells
    # which elements met before the large one. Lane 0 holds elements 0..7.
    x = torch.ones(128)
    x[0] = 1e4
    # Lane 0 starts from 1e8 and its 7 ones vanish (the spacing there is 8); of the other lanes,
    # each worth 8, lane 1 comes first, then lanes 2 and 3 as 16, then 32, then 64.
    assert reference.sum_of_squares(x, cuda_order=True).item() == 1e8 + 8 + 16 + 32 + 64
    x = torch.ones(128)
    x[7] = 1e4  # now lane 0's ones are added before the large element, and survive
    assert reference.sum_of_squares(x, cuda_order=True).item() == 1e8 + 8 + 8 + 16 + 32 + 64


def test_the_cuda_order_is_for_rows_of_128() -> None:
    with pytest.raises(ValueError, match="cuda_order sums rows of 128 elements, got 64"):
        reference.sum_of_squares(torch.ones(64), cuda_order=True)


def test_the_exact_preset_has_the_bits_of_its_reference(
    lab: Lab, same_bits: Callable[[torch.Tensor, torch.Tensor], bool]
) -> None:
    packed = lab.randn(16, 3, 4, 128, dtype=torch.bfloat16)
    q, k = packed[:, 0], packed[:, 1, :3]
    q_weight, k_weight = (lab.randn(128, dtype=torch.bfloat16, seed=s) for s in (1, 2))
    for table_dtype in (torch.float32, torch.bfloat16):
        table = lab.table(16, 128, table_dtype)
        got = qk_norm_rope(q, k, q_weight, k_weight, table, EPS, numerics="cuda_order")
        want = reference.qk_norm_rope(q, k, q_weight, k_weight, table, EPS, cuda_order=True)
        assert all(same_bits(x, y) for x, y in zip(got, want, strict=True))


def test_the_kernels_cuda_order_is_the_references(
    lab: Lab, same_bits: Callable[[torch.Tensor, torch.Tensor], bool]
) -> None:
    # A bfloat16 result hides nearly every difference of order; a float32 one does not. The public op
    # refuses float32 here, as no CUDA kernel is matched by it, so the launch is made directly.
    x = lab.randn(1, 64, 2, 128)
    weight = torch.ones(128, device=lab.device)
    table = torch.cat((torch.ones(64, 64), torch.zeros(64, 64)), dim=-1).to(lab.device)
    out = torch.empty_like(x)
    stream = launch.Stream(x, x, None, weight, weight)
    formula = launch.Formula(EPS, 128, interleaved=True, numerics=CUDA_ORDER)
    launch.launch("test", stream, None, (out, torch.empty_like(x)), table, formula)
    assert same_bits(out, reference.rms_norm(x, weight, EPS, cuda_order=True))
    assert not torch.equal(out, reference.rms_norm(x.flip(-1), weight, EPS, cuda_order=True).flip(-1))


def test_references_return_contiguous_tensors(lab: Lab) -> None:
    x = lab.laid_out("heads_first", (5, 3, 8), torch.float32)
    for rounding in Rounding:
        out = reference.norm_rope(x, lab.randn(8), lab.table(5, 8), EPS, rounding=rounding)
        assert out.is_contiguous()
