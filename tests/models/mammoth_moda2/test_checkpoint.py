"""Published checkpoints load by name, and what does not belong is said or refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.mammoth_moda2 import build  # noqa: E402 (behind the skips)
from models.mammoth_moda2.checkpoint import load_published, sort_published  # noqa: E402


def checkpoint(prefix: str = "") -> dict[str, torch.Tensor]:
    return {prefix + name: value for name, value in build(seed=7).state_dict().items()}


@pytest.mark.parametrize("prefix", ["", "gen_transformer."])
def test_checkpoint_loads_with_and_without_its_prefix(prefix: str) -> None:
    model = build()
    assert load_published(model, checkpoint(prefix)) == ()
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in checkpoint().items())


def test_what_belongs_to_other_models_is_left_out_and_named() -> None:
    others = {
        "model.embed_tokens.weight": torch.zeros(1),
        "gen_image_condition_refiner.layers.0.weight": torch.zeros(1),
        "gen_transformer.time_caption_embed.image_embedder.query": torch.zeros(1),
    }
    published = sort_published(checkpoint("gen_transformer.") | others)
    assert set(published.left_out) == set(others)
    assert published.state.keys() == build().state_dict().keys()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("lack", "the checkpoint lacks x_embedder.bias, x_embedder.weight"),
        ("more", "the checkpoint has no place in the model for layers.9.norm2.weight"),
        ("shape", r"the checkpoint is of another configuration in x_embedder.bias \(\[3\], here \[96\]\)"),
    ],
)
def test_checkpoint_of_another_model_is_refused_and_changes_nothing(change: str, says: str) -> None:
    model, state = build(), checkpoint()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    if change == "lack":
        del state["x_embedder.bias"], state["x_embedder.weight"]
    elif change == "more":
        state["layers.9.norm2.weight"] = torch.zeros(1)
    else:
        state["x_embedder.bias"] = torch.zeros(3)
    with pytest.raises(ValueError, match=says):
        load_published(model, state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
