"""A latent becomes an image by a linear map that saturates little."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("diffusers", reason="the model is built of diffusers' parts")

from models.denoising import decode, saturated


def test_a_latent_of_unit_variance_becomes_an_image_that_is_not_saturated() -> None:
    image = decode(torch.randn(1, 16, 32, 28, generator=torch.Generator().manual_seed(1)))
    assert image.shape == (3, 256, 224)
    assert 0 <= image.min() < 0.2
    assert 0.8 < image.max() <= 1
    assert image.mean().item() == pytest.approx(0.5, abs=0.01)
    assert image.std().item() == pytest.approx(0.25, abs=0.02)
    assert saturated(image) < 0.06


def test_decoding_is_linear_where_nothing_is_clamped() -> None:
    a, b = (0.2 * torch.randn(1, 4, 4, 3, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    mixed = decode(0.5 * (a + b)) - 0.5
    torch.testing.assert_close(mixed, 0.5 * (decode(a) - 0.5 + decode(b) - 0.5), atol=1e-6, rtol=0)
    torch.testing.assert_close(decode(8 * a, std=8.0), decode(a))


@pytest.mark.parametrize(("shape", "std"), [((16, 4, 4), 1.0), ((2, 16, 4, 4), 1.0), ((1, 16, 4, 4), 0.0)])
def test_what_cannot_be_decoded_is_refused(shape: tuple[int, ...], std: float) -> None:
    with pytest.raises(ValueError, match=r"a latent is|std is"):
        decode(torch.zeros(shape), std=std)
