"""The whole transformer, tiny, on a CPU: what goes in, what comes out, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.mammoth_moda2 import Grid, Transformer2DModel, TransformerBlock, build  # noqa: E402 (behind the skips)
from models.mammoth_moda2.embedding import patchify, unpatchify  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Forward = Callable[..., torch.Tensor]

BACKENDS = ("sdpa", "flash", "flash_opaque")


def random(*shape: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def blocks_run(model: Transformer2DModel, call: Callable[[], object]) -> list[str]:
    """Return the names of the blocks that ``call`` runs, in order."""
    ran: list[str] = []
    hooks = [
        module.register_forward_pre_hook(lambda *_, name=name: ran.append(name))
        for name, module in model.named_modules()
        if isinstance(module, TransformerBlock)
    ]
    try:
        call()
    finally:
        for hook in hooks:
            hook.remove()
    return ran


def test_patches_go_rows_first_and_channels_last() -> None:
    latent = torch.arange(2 * 4 * 6.0).view(1, 2, 4, 6)
    tokens = patchify(latent, 2)
    assert tokens.shape == (1, 6, 8)
    assert tokens[0, 1].tolist() == [2, 26, 3, 27, 8, 32, 9, 33]
    assert torch.equal(unpatchify(tokens, Grid(2, 3), 2), latent)


@pytest.mark.parametrize("text_len", [0, 1, 5])
@pytest.mark.parametrize("batch", [1, 2])
def test_prediction_has_the_latent_s_shape(forward: Forward, text_len: int, batch: int) -> None:
    out = forward(build(), 3, 7, text_len, batch)
    assert out.shape == (batch, 16, 6, 14)
    assert out.isfinite().all()


def test_output_channels_are_the_input_s_unless_told(forward: Forward) -> None:
    assert forward(build(out_channels=4)).shape == (1, 4, 6, 14)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("publishing", ["auto", "padding", "unknown"])
def test_backends_and_masks_agree(forward: Forward, name: str, publishing: str) -> None:
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    for given in (None, mask):
        out = forward(build(attention_backend=name, mask_publishing=publishing), batch=2, text_attention_mask=given)
        expected = forward(build(), batch=2, text_attention_mask=given)
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)


def test_padded_batch_is_its_samples_one_by_one(forward: Forward) -> None:
    model, text, latents = build(), random(2, 5, 64), random(2, 16, 6, 14)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    both = forward(model, batch=2, hidden_states=latents, text_hidden_states=text, text_attention_mask=mask)
    for sample, length in enumerate((5, 2)):
        own = forward(
            model,
            hidden_states=latents[sample : sample + 1],
            text_hidden_states=text[sample : sample + 1, :length],
        )
        torch.testing.assert_close(both[sample : sample + 1], own, rtol=1e-5, atol=1e-6)


def test_empty_text_skips_its_refiner(forward: Forward) -> None:
    model = build()
    ran = blocks_run(model, lambda: forward(model, text_len=0))
    assert ran == ["noise_refiner.0", "layers.0", "layers.1"]
    ran = blocks_run(model, lambda: forward(model, text_len=1))
    assert ran == ["context_refiner.0", "noise_refiner.0", "layers.0", "layers.1"]


@pytest.mark.parametrize("publishing", ["auto", "padding", "unknown"])
@pytest.mark.parametrize("name", BACKENDS)
def test_reference_images_of_unequal_number_and_size_are_each_their_own(
    forward: Forward, name: str, publishing: str
) -> None:
    model = build(attention_backend=name, mask_publishing=publishing)
    references = [[random(16, 4, 6), random(16, 2, 2, seed=6)], [random(16, 6, 2, seed=7)]]
    whole = {
        "hidden_states": random(2, 16, 6, 14),
        "text_hidden_states": random(2, 5, 64),
        "timestep": torch.tensor([100.0, 900.0]),
    }
    both = forward(model, batch=2, **whole, ref_image_hidden_states=references)
    for sample, refs in enumerate(references):
        part = {argument: value[sample : sample + 1] for argument, value in whole.items()}
        own = forward(model, **part, ref_image_hidden_states=[refs])
        torch.testing.assert_close(both[sample : sample + 1], own, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(both, forward(model, batch=2, **whole))


def test_each_reference_is_marked_by_its_place_in_the_list(forward: Forward) -> None:
    model, image = build(), random(16, 4, 4)
    one, two = forward(model, ref_image_hidden_states=[[image]]), forward(model, ref_image_hidden_states=[[image] * 2])
    with torch.no_grad():
        model.image_index_embedding[1] += 1
    assert torch.equal(forward(model, ref_image_hidden_states=[[image]]), one)
    assert not torch.allclose(forward(model, ref_image_hidden_states=[[image] * 2]), two)


def test_references_are_refined_by_their_own_refiner_and_told_apart_by_index(forward: Forward) -> None:
    model = build()
    first, second = random(16, 4, 4), random(16, 4, 4, seed=6)
    ran = blocks_run(model, lambda: forward(model, ref_image_hidden_states=[[first]]))
    assert ran.count("ref_image_refiner.0") == 1
    one = forward(model, ref_image_hidden_states=[[first, second]])
    other = forward(model, ref_image_hidden_states=[[second, first]])
    assert not torch.allclose(one, other)


def test_text_length_moves_the_image_s_position(forward: Forward) -> None:
    """Zeros as text still stand in front: the image's position begins behind them."""
    model = build()
    short = forward(model, text_hidden_states=torch.zeros(1, 1, 64))
    long = forward(model, text_hidden_states=torch.zeros(1, 9, 64))
    assert not torch.allclose(short, long)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"return_dict": True}, "there is one output: return_dict=True is not supported"),
        (
            {"hidden_states": torch.zeros(16, 6, 14)},
            r"a latent is \[batch, channels, height, width\], not \[16, 6, 14\]",
        ),
        ({"hidden_states": torch.zeros(2, 16, 6, 14)}, "2 latents cannot have 1 texts"),
        ({"hidden_states": torch.zeros(1, 16, 5, 14)}, "a latent of 5 x 14 cannot be cut into patches of 2 x 2"),
        ({"ref_image_hidden_states": [[], []]}, "1 latents cannot have 2 lists of reference images"),
        ({"ref_image_hidden_states": [[torch.zeros(16, 2, 2)] * 6]}, "a sample has at most 5 reference images"),
        ({"ref_image_hidden_states": [[torch.zeros(16, 3, 2)]]}, "a latent of 3 x 2 cannot be cut into patches"),
        ({"text_hidden_states": torch.zeros(1, 1024, 64)}, "tables hold 1024 positions, and this request needs 1025"),
    ],
    ids=["dict", "rank", "batch", "odd", "lists", "many", "odd_reference", "long"],
)
def test_what_does_not_fit_is_refused_in_a_sentence(forward: Forward, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        forward(build(), **more)


def test_heads_and_axes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"heads of 24 elements cannot hold axes of \[8, 8, 4\]"):
        build(axes_dim_rope=(8, 8, 4))


def test_attention_owns_no_parameters_so_checkpoints_do_not_depend_on_it() -> None:
    assert build().state_dict().keys() == build(attention_backend="flash").state_dict().keys()


def test_saved_model_comes_back_with_its_settings_and_other_attention_on_demand(
    forward: Forward, tmp_path: Any
) -> None:
    model = build(attention_backend="flash")
    model.save_pretrained(tmp_path)
    again = Transformer2DModel.from_pretrained(tmp_path).eval()
    assert again.config["attention_backend"] == "flash"
    saved, loaded = model.state_dict(), again.state_dict()
    assert saved.keys() == loaded.keys()
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)
    # safetensors maps weights from the file at any address, and off a cache line BLAS adds up in another order.
    limit = reordering(forward)
    assert distance(forward(again), forward(model)) <= limit
    other = Transformer2DModel.from_pretrained(tmp_path, attention_backend="sdpa").eval()
    torch.testing.assert_close(forward(other), forward(model), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("elements", [1, 6, 14])
def test_weights_off_the_alignment_change_no_more_than_the_order_of_sums(forward: Forward, elements: int) -> None:
    moved = build()
    for parameter in moved.parameters():
        store = torch.empty(parameter.numel() + elements)
        parameter.data = store[elements:].view_as(parameter).copy_(parameter.data)
    assert distance(forward(moved), forward(build())) <= reordering(forward)


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def reordering(forward: Forward) -> float:
    """Return how far outputs may lie apart whose sums were added up in another order.

    A dot product of K terms, added up in any order, is the exact one of factors that are off by at most K units of
    rounding each (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1): so every weight of a linear
    layer is moved by as much, up or down, and the outputs compared.
    """
    model, moved = build(), build()
    signs = torch.Generator().manual_seed(0)
    for module in moved.modules():
        if isinstance(module, torch.nn.Linear):
            sign = torch.randint(0, 2, module.weight.shape, generator=signs) * 2 - 1
            module.weight.data *= 1 + sign * module.in_features * torch.finfo(torch.float32).eps
    return distance(forward(moved), forward(model))
