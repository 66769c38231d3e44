"""Observing changes nothing: each model compiles, runs and answers the same with compilescope watching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.diffusers_dits import DITS, Size  # noqa: E402 (behind the skips)
from models.mammoth_moda2 import build, inputs, tables  # noqa: E402
from models.regional import regionally_compile  # noqa: E402

from ..neutral import trail  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.usefixtures("fresh_dynamo"), pytest.mark.slow]

# A first compilation, one for a text of length 1, and a call that an entry serves.
SIZES = (Size(3, 7, 7), Size(5, 7, 1), Size(3, 7, 7))


def dit(name: str) -> Callable[[], object]:
    def program() -> object:
        model = DITS[name].build()
        model.compile_repeated_blocks(backend="eager", dynamic=True)
        return [DITS[name].call(model, size) for size in SIZES]

    return program


def mammoth_moda2() -> object:
    model = build()
    regionally_compile(model, backend="aot_eager", dynamic=True, fullgraph=True)
    with torch.no_grad():
        return [model(**inputs(model, size, tables(model))) for size in SIZES]


QUICK = ("flux2", "z_image")


@pytest.mark.parametrize(
    "program",
    [mammoth_moda2, *(pytest.param(dit(name), marks=[] if name in QUICK else [pytest.mark.slow]) for name in DITS)],
    ids=["mammoth_moda2", *DITS],
)
def test_model_does_the_same_when_it_is_observed(program: Callable[[], object]) -> None:
    without, observed = [trail(program, observed=observed) for observed in (False, True)]
    assert without.graphs
    assert without.runs
    assert observed == without
