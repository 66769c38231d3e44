"""Where diffusers' chains round, by name: what the fused op computes in place of them, and where it differs.

Heads of 128 elements, norm weights 1 + 0.05 n: with weights of one, rounding before the weight would not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the chains are diffusers'")

from diffusers.models.embeddings import apply_rotary_emb  # noqa: E402 (behind the skips)
from diffusers.models.normalization import RMSNorm  # noqa: E402

from fused_ops import Rounding, reference  # noqa: E402
from models.families import FAMILIES  # noqa: E402

if TYPE_CHECKING:
    from torch import nn

TOKENS, HEADS, DIM, EPS = 400, 8, 128, 1e-6
NORM = {
    "flux": torch.nn.RMSNorm,
    "flux2": torch.nn.RMSNorm,
    "ovis_image": torch.nn.RMSNorm,
    "qwen_image": RMSNorm,
    "hunyuan_video15": RMSNorm,
    "z_image": RMSNorm,
}
ROUNDING = {torch.nn.RMSNorm: Rounding.BETWEEN, RMSNorm: Rounding.AROUND_WEIGHT}


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X = drawn(TOKENS, HEADS, DIM, seed=0).bfloat16()
WEIGHT = (1 + 0.05 * drawn(DIM, seed=1)).bfloat16()
ANGLES = 3 * drawn(TOKENS, DIM // 2, seed=2)
TABLE = torch.cat((ANGLES.cos(), ANGLES.sin()), dim=-1)


def eager(norm_class: type[nn.Module]) -> torch.Tensor:
    norm = norm_class(DIM, eps=EPS).bfloat16()
    rotary = tuple(x.repeat_interleave(2, dim=-1) for x in (ANGLES.cos(), ANGLES.sin()))
    with torch.no_grad():
        norm.weight.copy_(WEIGHT)
        return apply_rotary_emb(norm(X)[None], rotary, sequence_dim=1)[0]


def share(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a != b).float().mean())


@pytest.mark.parametrize("name", NORM)
def test_family_norms_its_heads_by_the_class_that_the_contract_names(name: str) -> None:
    model = FAMILIES[name].build()
    heads = [m for path, m in model.named_modules() if path.endswith((".norm_q", ".norm_k"))]
    assert {type(m) for m in heads} == {NORM[name]}


@pytest.mark.parametrize("norm_class", list(ROUNDING))
def test_chain_rounds_where_its_name_says(norm_class: type[nn.Module]) -> None:
    chain = eager(norm_class)
    named = reference.norm_rope(X, WEIGHT, TABLE, EPS, rounding=ROUNDING[norm_class])
    # Orders of sums may differ between machines; a place of rounding shows in a quarter of all elements.
    assert share(chain, named) < 0.01
    for other in Rounding:
        if other is not ROUNDING[norm_class]:
            assert share(chain, reference.norm_rope(X, WEIGHT, TABLE, EPS, rounding=other)) > 0.2


def test_the_op_differs_from_a_norm_that_rounds_around_its_weight_in_a_quarter_of_all_elements() -> None:
    fused, chain = reference.norm_rope(X, WEIGHT, TABLE, EPS), eager(RMSNorm)
    assert share(fused, chain) == pytest.approx(0.27, abs=0.02)
    # One unit in the last place of values below 8.
    assert float((fused.float() - chain.float()).abs().max()) <= 2.0**-5


def test_coefficients_rounded_to_bfloat16_differ_in_28_percent_of_all_elements() -> None:
    wide = reference.norm_rope(X, WEIGHT, TABLE, EPS)
    narrow = reference.norm_rope(X, WEIGHT, TABLE.bfloat16(), EPS)
    assert share(wide, narrow) == pytest.approx(0.2809, abs=0.01)
    assert float((wide.float() - narrow.float()).abs().max()) == 0.03125
