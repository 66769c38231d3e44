"""How often the blocks of a fused family compile: compilescope's marks on the models themselves.

Points are chosen so that no token count is a width of the tiny models (16, 24, 32, 48), which would make it static.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import compilescope

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are diffusers'")

from models.families import FAMILIES, FUSED, WORKLOADS, Size, free_sizes  # noqa: E402 (behind the skips)
from models.families.workloads import guided, prepare  # noqa: E402
from models.regional import regionally_compile  # noqa: E402

if TYPE_CHECKING:
    from compilescope.record import Recording

# Height, width, text, batch: a text first that is not empty, and no batch of one.
POINTS = [(5, 7, 7, 2), (3, 7, 0, 2), (7, 5, 1, 1), (6, 6, 77, 2), (5, 7, 0, 1), (3, 7, 7, 1)]
# Z-Image has blocks with modulation and without. The text refiner of HunyuanVideo-1.5 is left to Dynamo.
KINDS = {"ZImageTransformerBlock": 2, "HunyuanVideo15TokenRefiner": 2}

unbacked = pytest.mark.skipif(not free_sizes.SUPPORTED, reason="this torch cannot be told a least size")


def observed(name: str, points: list[tuple[int, int, int, int]], **prepared: Any) -> Recording:
    """Compile a tiny model, run it at every point, and compare it with diffusers' own forward."""
    family = FAMILIES[name]
    model, eager = family.build(), family.build()
    prepare(family, model, **prepared)
    assert regionally_compile(model, dynamic=True, fullgraph=True, backend="eager") >= 2
    with compilescope.observe([f"{block}.forward" for block in family.blocks]) as scope:
        for height, width, text_len, batch in points:
            if text_len or family.empty_text:
                size = Size(height, width, text_len, batch)
                torch.testing.assert_close(family.call(model, size), family.call(eager, size), rtol=1e-5, atol=1e-5)
    return scope.recording


def by_block(recording: Recording) -> dict[str, int]:
    blocks = [one.code.rsplit(":", 1)[-1].removesuffix(".forward") for one in recording.compiled]
    return {block: blocks.count(block) for block in dict.fromkeys(blocks)}


@unbacked
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("name", FUSED)
def test_fused_with_free_sizes_every_block_class_compiles_once_for_each_of_its_kinds(name: str) -> None:
    recording = observed(name, POINTS, fused=True, remedies="marks")
    assert by_block(recording) == {block: KINDS.get(block, 1) for block in FAMILIES[name].blocks}
    assert not recording.graph_breaks


@unbacked
@pytest.mark.usefixtures("fresh_dynamo")
def test_empty_text_first_is_a_graph_of_its_own_even_with_free_sizes() -> None:
    recording = observed("flux2", [(3, 7, 0, 2), (5, 7, 7, 2)], fused=True, remedies="marks")
    assert by_block(recording) == {"Flux2TransformerBlock": 2, "Flux2SingleTransformerBlock": 1}
    (recompile,) = recording.recompiles
    assert [(cause.kind, cause.source) for cause in recompile.recompile.causes] == [
        ("stride", "encoder_hidden_states.stride()[0]")
    ]


@pytest.mark.usefixtures("fresh_dynamo")
def test_diffusers_own_regional_compilation_takes_the_packing_into_the_graph() -> None:
    family, size = FAMILIES["qwen_image"], Size(5, 7, 7, 2)
    model = family.build()
    family.fuse(model, stand_in=True)
    model.compile_repeated_blocks(backend="eager", fullgraph=True, dynamic=True)
    torch.testing.assert_close(family.call(model, size), family.call(family.build(), size), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["qwen_image", "hunyuan_video15", "z_image"])
def test_guidance_as_one_padded_batch_is_guidance_in_turns(name: str) -> None:
    # Sizes at which a seeded draw for two begins with the draw for one.
    family, size = FAMILIES[name], Size(4, 8, 9)
    model = family.build()
    batch = guided(family, model, size, "batch", 4)
    text, _ = guided(family, model, size, "turns", 4)
    # The first entry has its whole text: whether others are padded beside it is nothing to it.
    torch.testing.assert_close(batch if name == "z_image" else batch[:1], text, rtol=1e-4, atol=1e-4)


def test_words_that_a_workload_does_not_know_are_refused() -> None:
    flux = FAMILIES["flux"]
    with pytest.raises(ValueError, match="remedies is one of none, marks, not 'settings'"):
        prepare(flux, flux.build(), fused=True, remedies="settings")
    with pytest.raises(ValueError, match="cfg is off, turns or batch, not 'both'"):
        guided(flux, flux.build(), Size(3, 7, 7), "both", 4)
    with pytest.raises(ValueError, match="takes no mask of its text, so guidance is no padded batch"):
        guided(flux, flux.build(), Size(3, 7, 7), "batch", 4)


@pytest.mark.usefixtures("fresh_dynamo")
def test_workload_compiles_what_it_was_asked_for() -> None:
    run = WORKLOADS["qwen_image"].build({"fused": True, "remedies": "marks" if free_sizes.SUPPORTED else "none"})
    with compilescope.observe(["QwenImageTransformerBlock.forward"]) as scope:
        for cfg in ("off", "turns", "batch"):
            run(height=3, width=7, text_len=9, batch=1, cfg=cfg, frames=1)
    assert len(scope.recording.compiled) >= 1


def test_torch_that_cannot_leave_sizes_free_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_sizes, "SUPPORTED", False)
    family = FAMILIES["qwen_image"]
    with pytest.raises(RuntimeError, match="cannot be told that an unbacked size is at least 1"):
        family.leave_sizes_free(family.build())
