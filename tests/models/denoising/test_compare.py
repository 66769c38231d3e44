"""Arms are run on one model, measured against the eager one, and leave the model as it was."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

pytest.importorskip("diffusers", reason="the model is built of diffusers' parts")

from models.denoising import Request, Settings, against, report, run_arms
from models.mammoth_moda2 import build, free_sizes

from .making import HEIGHT, SMALL, request


@pytest.mark.usefixtures("fresh_dynamo")
def test_each_kind_of_block_is_compiled_once_for_all_sizes_and_the_eager_arm_compiles_nothing() -> None:
    model = build("tiny", **SMALL)
    requests = [request(), request(height=160, text_len=33)]
    found = run_arms(model, requests, Settings(backend="eager", control=True))
    eager, compiled, reordered = found.arms
    assert [arm.name for arm in found.arms] == ["eager", "compiled", "control"]
    assert found.order == ("eager", "compiled", "control", "control", "compiled", "eager")
    (target,) = compiled.recording.targets
    assert (target.selector, target.compiles, compiled.changed) == ("TransformerBlock.forward", 2, 4)
    assert [one.compiles for one in compiled.measured] == [2, 0]
    assert {c.point["height"] for c in compiled.recording.compilations if c.point} == {HEIGHT}
    for arm in (eager, reordered):
        assert arm.recording.compilations == ()
        assert [target.status for target in arm.recording.targets] == ["never_reached"]
    assert [arm.later_compiles for arm in found.arms] == [0, 0, 0]
    for one in (measured for arm in found.arms for measured in arm.measured):
        assert one.repeatable
        assert one.peak_bytes is None
        assert [len(turn) for turn in one.turns] == [2, 2]
        assert None not in (one.step_seconds, one.startup_seconds)
    assert report.notes(found) == []
    distances = {(one.arm, one.request): one for one in found.differences}
    assert len(distances) == 4
    for (arm, _), one in distances.items():
        assert one.image is not None
        assert one.image.max_abs < 1e-4
        assert one.saturated is not None
        assert one.saturated < 0.06
        assert arm == "compiled" or not one.image.bitwise
    assert all("forward" not in vars(module) for module in model.modules())


@pytest.mark.usefixtures("fresh_dynamo")
def test_an_arm_that_raises_says_so_and_the_others_are_measured() -> None:
    model = build("tiny", attention_backend="flash_opaque", **SMALL)
    found = run_arms(model, [request()], Settings(backend="eager"))
    (eager,), (compiled,) = (arm.measured for arm in found.arms)
    assert eager.error is None
    assert eager.step_seconds is not None
    assert compiled.error is not None
    assert (compiled.turns, compiled.step_seconds, compiled.startup_seconds) == ((), None, None)
    assert [one.note for one in found.differences] == ["the compiled arm raised"]
    assert any("nothing was compiled" in line for line in report.notes(found))
    assert all("forward" not in vars(module) for module in model.modules())


@pytest.mark.usefixtures("fresh_dynamo")
def test_remedies_are_on_while_compiling_and_off_behind() -> None:
    from torch.fx.experimental import _config as shapes

    def state() -> tuple[bool, bool]:
        return shapes.backed_size_oblivious, shapes.use_duck_shape

    states = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
        states.append(state())
        return graph

    before = state()
    settings = Settings(remedies="settings", compile_options={"backend": backend})
    found = run_arms(build("tiny", **SMALL), [request(steps=1)], settings)
    assert states == [(True, False)] * 2
    assert state() == before != states[0]
    assert found.arms[1].measured[0].step_seconds is None  # its only step is warm-up


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.skipif(not free_sizes.SUPPORTED, reason="this torch cannot be told a least size")
def test_marks_leave_one_token_to_the_same_graphs_and_are_gone_behind() -> None:
    model = build("tiny", **SMALL)
    requests = [request(text_len=text_len, steps=1) for text_len in (7, 1)]
    found = run_arms(model, requests, Settings(remedies="marks", backend="eager"))
    assert [one.compiles for one in found.arms[1].measured] == [2, 0]
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("requests", "settings", "sentence"),
    [
        ([], {}, "there is no request"),
        ([request(text_len=5000)], {}, "1024 positions, and this request needs 5001"),
        ([request()], {"control": True}, "60 elements"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(
    requests: list[Request], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        run_arms(build("tiny", text_feat_dim=60, **SMALL), requests, Settings(**settings))


def test_a_latent_that_is_not_finite_leaves_a_note_and_no_number() -> None:
    good, bad = torch.ones(1, 16, 4, 4).cumsum(2), torch.full((1, 16, 4, 4), math.nan)
    for pair in ((good, bad), (bad, good)):
        found = against("compiled", request(), *pair)
        assert found.image is None
        assert found.latent is None
        assert found.note is not None
        assert "not finite" in found.note
    assert against("compiled", request(), None, good).note == "the compiled arm raised"
