"""A fused model computes what diffusers' own computes, on the op's terms, and can be put back."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are diffusers'")

from models.families import FAMILIES, FUSED, Size, fusing  # noqa: E402 (behind the skips)
from models.families.processors import Fused  # noqa: E402

# The order of sums differs, nothing else.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SIZE = Size(3, 7, 7)


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).float().norm() / b.float().norm())


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "per_stream"])
@pytest.mark.parametrize("name", FUSED)
def test_fused_forward_is_diffusers_own_at_every_text_length_and_batch(name: str, joint: bool) -> None:  # noqa: FBT001
    family = FAMILIES[name]
    fused, eager = family.build(), family.build()
    family.fuse(fused, joint=joint, stand_in=True)
    for text_len in (0, 1, 7, 77) if family.empty_text else (1, 7, 77):
        for batch in (1, 2):
            size = Size(5, 7, text_len, batch)
            torch.testing.assert_close(family.call(fused, size), family.call(eager, size), **CLOSE)


@pytest.mark.parametrize("name", FUSED)
def test_bfloat16_forward_is_diffusers_own_to_a_few_roundings(name: str) -> None:
    family, size = FAMILIES[name], Size(3, 7, 7, dtype=torch.bfloat16)
    fused, eager = family.build(dtype=torch.bfloat16), family.build(dtype=torch.bfloat16)
    family.fuse(fused, stand_in=True)
    # A rounding is 2**-9 at most; test_contract.py says where there is one more, and that there is no other.
    assert relative(family.call(fused, size), family.call(eager, size)) < 2.0**-6


@pytest.mark.parametrize("name", ["qwen_image", "flux", "hunyuan_video15"])
def test_joint_op_is_bitwise_two_streams_and_a_concatenation(name: str) -> None:
    family, size = FAMILIES[name], Size(3, 7, 7, 2, dtype=torch.bfloat16)
    joint, apart = family.build(dtype=torch.bfloat16), family.build(dtype=torch.bfloat16)
    family.fuse(joint, stand_in=True)
    family.fuse(apart, joint=False, stand_in=True)
    assert torch.equal(family.call(joint, size).view(torch.int16), family.call(apart, size).view(torch.int16))


def test_padded_text_is_masked_as_diffusers_masks_it() -> None:
    family = FAMILIES["qwen_image"]
    fused, eager = family.build(), family.build()
    family.fuse(fused, stand_in=True)
    given = family.inputs(Size(3, 7, 9, 2), eager.config)
    given["encoder_hidden_states_mask"] = torch.arange(9) < torch.tensor([[9], [4]])
    with torch.no_grad():
        one, other = fused(**given).sample, eager(**given).sample
        unmasked = eager(**{**given, "encoder_hidden_states_mask": None}).sample
    torch.testing.assert_close(one, other, **CLOSE)
    assert relative(unmasked[1], other[1]) > 1e-3


def test_captions_of_two_lengths_are_padded_as_diffusers_pads_them() -> None:
    family = FAMILIES["z_image"]
    fused, eager = family.build(), family.build()
    family.fuse(fused, stand_in=True)
    given = family.inputs(Size(3, 7, 40, 2), eager.config)
    given["cap_feats"][1] = given["cap_feats"][1][:5]
    with torch.no_grad():
        for one, other in zip(fused(**given).sample, eager(**given).sample, strict=True):
            torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("name", FUSED)
def test_table_is_packed_once_for_each_rotary_embedding_of_a_forward(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = FAMILIES[name]
    packed = []
    table = fusing.rope_table
    monkeypatch.setattr(fusing, "rope_table", lambda *a, **k: packed.append(1) or table(*a, **k))
    model = family.build()
    family.fuse(model, stand_in=True)
    for _ in range(2):
        family.call(model, SIZE)
    # Z-Image rotates image, caption and both together.
    assert len(packed) == 2 * (3 if name == "z_image" else 1)


def test_short_sequences_stay_eager_where_the_gate_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    family, size = FAMILIES["qwen_image"], Size(3, 7, 7, 2, dtype=torch.bfloat16)
    fused, eager = family.build(dtype=torch.bfloat16), family.build(dtype=torch.bfloat16)
    family.fuse(fused, stand_in=True)
    rows = 2 * (21 + 7)
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", str(rows))
    assert not torch.equal(family.call(fused, size), family.call(eager, size))
    monkeypatch.setenv("FUSED_OPS_MIN_TOKENS", str(rows + 1))
    assert torch.equal(family.call(fused, size), family.call(eager, size))


def test_machine_without_the_kernel_computes_diffusers_own() -> None:
    family, size = FAMILIES["qwen_image"], Size(3, 7, 7, dtype=torch.bfloat16)
    fused, eager = family.build(dtype=torch.bfloat16), family.build(dtype=torch.bfloat16)
    family.fuse(fused)
    assert torch.equal(family.call(fused, size), family.call(eager, size))


def _unequal_epsilon(attn: Any) -> None:
    attn.norm_k.eps = 0.5


def _no_weight(attn: Any) -> None:
    attn.norm_k = torch.nn.RMSNorm(16, eps=1e-6, elementwise_affine=False)


@pytest.mark.parametrize("change", [_unequal_epsilon, _no_weight])
def test_layer_that_the_op_cannot_compute_stays_eager(change: Any) -> None:
    family = FAMILIES["flux"]
    fused, eager = family.build(), family.build()
    for model in (fused, eager):
        change(model.transformer_blocks[0].attn)
        change(model.single_transformer_blocks[1].attn)
    family.fuse(fused, stand_in=True)
    torch.testing.assert_close(family.call(fused, SIZE), family.call(eager, SIZE), **CLOSE)


def test_layer_with_a_processor_of_its_own_keeps_it() -> None:
    from diffusers.models.transformers.transformer_flux import FluxAttnProcessor

    class Other(FluxAttnProcessor):
        pass

    family = FAMILIES["flux"]
    model = family.build()
    own = Other()
    model.single_transformer_blocks[0].attn.set_processor(own)
    assert family.fuse(model, stand_in=True) == 3
    torch.testing.assert_close(family.call(model, SIZE), family.call(family.build(), SIZE), **CLOSE)
    assert model.single_transformer_blocks[0].attn.processor is own


@pytest.mark.parametrize("name", FUSED)
def test_unfused_model_has_its_own_processors_and_no_hooks(name: str) -> None:
    family = FAMILIES[name]
    model = family.build(dtype=torch.bfloat16)
    attentions = [m for m in model.modules() if hasattr(m, "processor")]
    before = [m.processor for m in attentions]
    assert family.fuse(model) == sum(isinstance(m.processor, Fused) for m in attentions)
    family.unfuse(model)
    assert [m.processor for m in attentions] == before
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_processor_that_somebody_set_on_a_fused_layer_stays_when_unfused() -> None:
    from diffusers.models.transformers.transformer_flux import FluxAttnProcessor

    family = FAMILIES["flux"]
    model = family.build()
    family.fuse(model)
    theirs = FluxAttnProcessor()
    model.transformer_blocks[0].attn.set_processor(theirs)
    family.unfuse(model)
    assert model.transformer_blocks[0].attn.processor is theirs


def test_copy_of_a_fused_model_is_fused_and_its_own() -> None:
    family = FAMILIES["qwen_image"]
    model = family.build(dtype=torch.bfloat16)
    family.fuse(model, stand_in=True)
    size = Size(3, 7, 7, dtype=torch.bfloat16)
    expected = family.call(model, size)
    twin = copy.deepcopy(model)
    family.unfuse(model)
    assert torch.equal(family.call(twin, size), expected)
    family.unfuse(twin)
    assert torch.equal(family.call(twin, size), family.call(model, size))


@pytest.mark.parametrize("when", ["before", "after"])
def test_attention_backend_reaches_the_processors(when: str) -> None:
    family = FAMILIES["flux"]
    model = family.build()
    if when == "before":
        model.set_attention_backend("_native_math")
    family.fuse(model, stand_in=True)
    if when == "after":
        model.set_attention_backend("_native_math")
    processor = model.transformer_blocks[0].attn.processor
    assert processor._attention_backend == processor.eager._attention_backend == "_native_math"
    torch.testing.assert_close(family.call(model, SIZE), family.call(family.build(), SIZE), **CLOSE)


@pytest.mark.parametrize("name", ["flux", "flux2", "ovis_image"])
def test_projections_that_diffusers_made_one_matrix_are_used(name: str) -> None:
    family = FAMILIES[name]
    fused, eager = family.build(), family.build()
    for module in fused.modules():
        if hasattr(module, "fuse_projections"):
            module.fuse_projections()
    assert any(getattr(m, "fused_projections", False) for m in fused.modules())
    family.fuse(fused, stand_in=True)
    torch.testing.assert_close(family.call(fused, SIZE), family.call(eager, SIZE), **CLOSE)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["flux", "qwen_image"])
def test_lora_on_the_projections_is_computed(name: str, when: str) -> None:
    peft = pytest.importorskip("peft", reason="diffusers' LoRA is peft's")
    family = FAMILIES[name]
    fused, eager, bare = family.build(), family.build(), family.build()
    settings = peft.LoraConfig(
        r=2, target_modules=["to_q", "to_k", "to_v", "add_q_proj", "to_out.0"], init_lora_weights=False
    )
    if when == "after":
        family.fuse(fused, stand_in=True)
    for model in (fused, eager):
        torch.manual_seed(1)
        model.add_adapter(settings)
    if when == "before":
        family.fuse(fused, stand_in=True)
    expected = family.call(eager, SIZE)
    torch.testing.assert_close(family.call(fused, SIZE), expected, **CLOSE)
    assert relative(family.call(bare, SIZE), expected) > 1e-3


def test_fusing_twice_or_what_is_not_fused_or_unknown_is_refused() -> None:
    flux, lumina2 = FAMILIES["flux"], FAMILIES["lumina2"]
    model = flux.build()
    with pytest.raises(ValueError, match="FluxTransformer2DModel is not fused"):
        flux.unfuse(model)
    flux.fuse(model)
    with pytest.raises(ValueError, match="is fused already; unfuse it first"):
        flux.fuse(model)
    with pytest.raises(ValueError, match="has no attention layer with one of the processors QwenDoubleStream"):
        FAMILIES["qwen_image"].fuse(flux.build())
    with pytest.raises(ValueError, match="nothing is known of how to fuse Lumina2Transformer2DModel"):
        lumina2.fuse(lumina2.build())
