"""Arms take turns, warm-up is left out, and what a device does not tell is not made up."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("diffusers", reason="the model is built of diffusers' parts")

from models.denoising import StepClock, abba, peak_bytes, start_up, warm_step

from .making import Stub, request, run


def test_arms_take_turns_forwards_and_then_backwards() -> None:
    assert "".join(abba("AB", 2)) == "ABBAABBA"
    assert abba(("eager", "compiled", "control")) == (
        *("eager", "compiled", "control"),
        *("control", "compiled", "eager"),
    )
    with pytest.raises(ValueError, match="not 0 times"):
        abba("AB", 0)


def test_warm_up_steps_are_left_out_of_every_turn() -> None:
    turns = ((10.0, 1.0, 3.0), (5.0, 2.0, 9.0))
    assert warm_step(turns, 1) == 2.5
    assert warm_step(turns, 2) == 6.0
    assert warm_step(turns, 3) is None
    assert start_up(turns, 2.5) == 7.5
    assert start_up(turns, None) is None
    with pytest.raises(ValueError, match="not -1"):
        warm_step(turns, -1)


def test_a_clock_has_one_time_a_step_and_refuses_a_device_that_it_cannot_see() -> None:
    clock = StepClock(torch.device("cpu"))
    run(Stub(), request(steps=3), on_step=clock.step)
    assert len(clock.seconds()) == 3
    with pytest.raises(ValueError, match="not on meta"):
        StepClock(torch.device("meta"))


def test_memory_is_not_measured_on_a_cpu() -> None:
    assert peak_bytes(torch.device("cpu")) is None
