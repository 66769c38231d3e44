"""Tiny models tell of full ones: as many compilations, of the same kinds, at every depth, width and device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import compilescope

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are diffusers'")

from models.families import FAMILIES, Size, free_sizes  # noqa: E402 (behind the skips)
from models.families.workloads import prepare  # noqa: E402
from models.regional import regionally_compile  # noqa: E402

if TYPE_CHECKING:
    from collections import Counter

POINTS = [(5, 7, 7, 2), (3, 7, 1, 2), (7, 5, 77, 1)]


def kinds(name: str, points: list[tuple[int, int, int, int]], *, remedies: str, **built: Any) -> Counter[str]:
    """Return ``block kind`` of every compilation, where the first of a block has no kind."""
    from collections import Counter

    torch.compiler.reset()
    family = FAMILIES[name]
    model = family.build(**built)
    prepare(family, model, fused=True, remedies=remedies)
    regionally_compile(model, dynamic=True, fullgraph=True, backend="eager")
    with compilescope.observe([f"{block}.forward" for block in family.blocks]) as scope:
        for height, width, text_len, batch in points:
            family.call(model, Size(height, width, text_len, batch, device=built.get("device", "cpu")))
    found: Counter[str] = Counter()
    for one in scope.recording.compiled:
        block = one.code.rsplit(":", 1)[-1]
        causes = () if one.recompile is None else one.recompile.causes
        found[" ".join([block, *sorted({cause.kind for cause in causes})])] += 1
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("name", ["qwen_image", "flux2"])
@pytest.mark.parametrize("remedies", ["none", "marks"])
def test_full_model_without_weights_compiles_as_the_tiny_one(name: str, remedies: str) -> None:
    if remedies == "marks" and not free_sizes.SUPPORTED:
        pytest.skip("this torch cannot be told a least size")
    full = kinds(name, POINTS, remedies=remedies, size="full", device="meta")
    assert full == kinds(name, POINTS, remedies=remedies)
    assert sum(full.values()) >= 1


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_one_block_hides_what_the_second_one_shows() -> None:
    depth = {"num_layers": 1, "num_single_layers": 1}
    one = kinds("flux", POINTS[:1], remedies="none", **depth)
    two = kinds("flux", POINTS[:1], remedies="none", **dict.fromkeys(depth, 2))
    assert one == {"FluxTransformerBlock.forward": 1, "FluxSingleTransformerBlock.forward": 1}
    if one == two:
        pytest.skip("this torch needs no second graph for an input that is no view")
    assert two["FluxTransformerBlock.forward view_base"] == 1
    assert kinds("flux", POINTS[:1], remedies="none", **dict.fromkeys(depth, 3)) == two
