"""The denoising loop takes two forwards a step, and refuses at once what it cannot run."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

pytest.importorskip("diffusers", reason="the model is built of diffusers' parts")

from models.denoising import bitwise, loop, max_abs

from .making import AXES, HEIGHT, TEXT, WIDTH, Stub, request, run

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_latent_has_an_eighth_of_the_pixels_each_way(model: torch.nn.Module) -> None:
    latent = run(model, request())
    assert latent.shape == (1, 16, HEIGHT // 8, WIDTH // 8)
    assert latent.dtype == torch.float32
    assert latent.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"height": 100}, "height and width are positive multiples of 16 pixels, not 100 x 112"),
        ({"width": 120}, "height and width are positive multiples of 16 pixels, not 128 x 120"),
        ({"height": 0}, "height and width are positive multiples of 16 pixels, not 0 x 112"),
        ({"text_len": -1}, "a text has 0 tokens or more, not -1"),
        ({"steps": 0}, "a run has at least 1 step, not 0"),
        ({"guidance": math.nan}, "guidance is a finite number from 0 on, not nan"),
        ({"guidance": -1.0}, "guidance is a finite number from 0 on, not -1.0"),
        ({"seed": 2**31}, "a seed is at least 0 and below 2**31, not 2147483648"),
    ],
)
def test_a_request_out_of_range_is_refused_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (the whole sentence is compared)
        request(**changes)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(("changes", "what"), [({"text_len": 1024}, "positions"), ({"width": 16400}, "columns")])
def test_a_request_beyond_the_tables_is_refused_before_anything_runs(changes: dict[str, Any], what: str) -> None:
    stub = Stub()
    with pytest.raises(ValueError, match=f"the rotary tables hold 1024 {what}, and this request needs 1025"):
        run(stub, request(**changes))
    assert not stub.calls


def test_a_step_is_a_forward_with_the_text_and_then_one_without(model: torch.nn.Module) -> None:
    lengths: list[tuple[int, int]] = []
    hook = model.register_forward_pre_hook(lambda _, args: lengths.append((args[2].shape[0], args[2].shape[1])))
    try:
        run(model, request(steps=3))
    finally:
        hook.remove()
    assert lengths == [(1, TEXT), (1, 0)] * 3


@pytest.mark.parametrize("guidance", [0.0, 1.0])
def test_without_guidance_a_step_is_one_forward(guidance: float) -> None:
    stub = Stub()
    run(stub, request(guidance=guidance))
    assert [call[2].shape[1] for call in stub.calls] == [TEXT, TEXT]


def test_guidance_goes_from_the_empty_text_towards_the_text() -> None:
    stub = Stub()
    noise = loop.seeded_noise(request(), 16)
    expected = noise - (0.5 * noise + 3.0 * (0.75 * noise - 0.5 * noise))  # one step goes from sigma 1 to 0
    torch.testing.assert_close(run(stub, request(steps=1, guidance=3.0)), expected)
    torch.testing.assert_close(run(stub, request(steps=1, guidance=1.0)), noise - 0.75 * noise)


def test_two_steps_go_to_the_schedulers_second_timestep_and_then_to_zero() -> None:
    stub = Stub()
    noise = loop.seeded_noise(request(), 16)
    first = noise + (0.001 - 1) * 0.75 * noise  # the timesteps are 1000 and 1
    torch.testing.assert_close(run(stub, request(guidance=1.0)), first - 0.001 * 0.75 * first)
    assert [call[1].tolist() for call in stub.calls] == [[1000.0], [1.0]]


def test_the_latent_stays_float32_and_the_model_sees_its_own_dtype() -> None:
    stub = Stub(torch.bfloat16)
    latent = run(stub, request())
    assert {(call[0].dtype, call[1].dtype, call[2].dtype) for call in stub.calls} == {
        (torch.bfloat16, torch.float32, torch.bfloat16)
    }
    assert latent.dtype == torch.float32
    assert not bitwise(latent, latent.bfloat16().float())


def test_the_model_gets_no_mask() -> None:
    stub = Stub()
    run(stub, request())
    assert all(call[3] is AXES and len(call) == 5 for call in stub.calls)


def test_what_on_step_returns_is_entered_around_the_forwards_of_a_step() -> None:
    stub = Stub()
    seen: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def on_step(step: int) -> Iterator[None]:
        before, stub.inside = len(stub.calls), True
        yield
        stub.inside = False
        seen.append((step, len(stub.calls) - before))

    run(stub, request(steps=3), on_step=on_step)
    assert seen == [(0, 2), (1, 2), (2, 2)]
    assert all(call[-1] for call in stub.calls)


def test_a_seed_decides_the_latent_bit_for_bit(model: torch.nn.Module) -> None:
    first = run(model, request(seed=3))
    assert bitwise(run(model, request(seed=3)), first)
    assert not torch.allclose(run(model, request(seed=4)), first, atol=0.1)


def test_text_and_noise_of_one_seed_are_drawn_apart() -> None:
    text, noise = loop.seeded_text(request(), 64).flatten(), loop.seeded_noise(request(), 16).flatten()
    assert not torch.equal(text[:1000], noise[:1000])


def test_the_text_matters(model: torch.nn.Module) -> None:
    with_text, without = (run(model, request(text_len=length)) for length in (TEXT, 0))
    assert max_abs(with_text, without) > 1e-3
