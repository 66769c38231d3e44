"""The denoising loop, its measures and its arms, on the tiny model: two forwards a step, and nothing made up.

Sizes are 128 x 112 pixels (56 tokens) and 77 tokens of text, so that no length equals a width of the model.
"""

from __future__ import annotations

import contextlib
import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
import torch
from click.testing import CliRunner

pytest.importorskip("diffusers", reason="the model is built of diffusers' parts")

import msgspec
from diffusers.models.normalization import RMSNorm

from models.denoising import (
    Difference,
    Request,
    Settings,
    StepClock,
    abba,
    against,
    bitwise,
    control,
    decode,
    denoise,
    loop,
    max_abs,
    measures,
    norm_reduction_in_lanes,
    peak_bytes,
    psnr,
    relative_l2,
    report,
    run_arms,
    saturated,
    start_up,
    warm_step,
)
from models.denoising.__main__ import main
from models.mammoth_moda2 import build, free_sizes, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

HEIGHT: Final = 128
WIDTH: Final = 112
TEXT: Final = 77
SMALL: Final = {"num_layers": 1, "num_refiner_layers": 1}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Let the tiny model compute in one thread; more of them only get into each other's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return build("tiny", **SMALL)


class Stub(torch.nn.Module):
    """Predicts a multiple of the latent that the text's length decides, and notes what it was given."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.config = SimpleNamespace(in_channels=16, text_feat_dim=64)
        self.weight = torch.nn.Parameter(torch.ones((), dtype=dtype))
        self.calls: list[tuple[Any, ...]] = []
        self.inside = False

    def forward(self, *given: Any) -> torch.Tensor:
        self.calls.append((*given, self.inside))
        latent, _, text, _ = given
        return latent * self.weight * (0.75 if text.shape[1] else 0.5)


def request(steps: int = 2, **changes: Any) -> Request:
    return Request(**{"height": HEIGHT, "width": WIDTH, "text_len": TEXT, "steps": steps, **changes})


def run(model: torch.nn.Module, asked: Request, **options: Any) -> torch.Tensor:
    return denoise(model, asked, AXES, **options)


AXES: Final = tables(build("tiny", device="meta", **SMALL))


# The loop.


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


@pytest.mark.parametrize(("changes", "what"), [({"text_len": 1024}, "1025 positions"), ({"width": 16400}, "1025 col")])
def test_a_request_beyond_the_tables_is_refused_before_anything_runs(changes: dict[str, Any], what: str) -> None:
    stub = Stub()
    with pytest.raises(ValueError, match=what):
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


# Images and measures.


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


def test_psnr_of_a_constant_difference_is_known() -> None:
    zero = torch.zeros(3, 8, 8)
    assert psnr(zero + 0.1, zero) == pytest.approx(20.0, abs=1e-5)
    assert psnr(zero + 0.01, zero) == pytest.approx(40.0, abs=1e-5)
    assert psnr(zero + 0.1, zero, peak=10.0) == pytest.approx(40.0, abs=1e-5)
    assert psnr(zero, zero) == math.inf


@pytest.mark.parametrize("measure", [psnr, max_abs, relative_l2, measures.compare])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_on_either_side(measure: Callable[..., object], value: float) -> None:
    good, bad = torch.zeros(4), torch.tensor([0.0, value, 0.0, 0.0])
    for pair in ((good, bad), (bad, good), (bad, bad)):
        with pytest.raises(ValueError, match=r"1 of 4 values of the .* not finite"):
            measure(*pair)


def test_tensors_that_do_not_match_or_are_empty_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        psnr(torch.zeros(2), torch.zeros(1))
    with pytest.raises(ValueError, match="no values"):
        psnr(torch.zeros(0), torch.zeros(0))


def test_norms_and_largest_difference_are_those_of_the_definition() -> None:
    candidate, reference = torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0])
    assert measures.compare(candidate, reference, peak=None) == Difference(
        psnr=pytest.approx(10 * math.log10(4.0**2 / 0.125)), max_abs=0.5, relative_l2=0.1, bitwise=False, peak=4.0
    )
    assert relative_l2(torch.zeros(2), torch.zeros(2)) == 0.0
    assert relative_l2(candidate, torch.zeros(2)) == math.inf


def test_bitwise_counts_signed_zeros_and_dtypes() -> None:
    zero = torch.zeros(2, 2)
    assert bitwise(zero, zero.clone())
    assert not bitwise(zero, -zero)
    assert psnr(zero, -zero) == math.inf
    assert not bitwise(zero, zero.double())
    assert bitwise(zero.t(), zero)


def test_json_has_null_where_images_are_equal_and_never_infinity() -> None:
    encoded = json.loads(msgspec.json.encode(measures.compare(torch.ones(2), torch.ones(2))))
    assert encoded == {"psnr": None, "max_abs": 0.0, "relative_l2": 0.0, "bitwise": True, "peak": 1.0}


def test_a_latent_that_is_not_finite_leaves_a_note_and_no_number() -> None:
    good, bad = torch.ones(1, 16, 4, 4).cumsum(2), torch.full((1, 16, 4, 4), math.nan)
    for pair in ((good, bad), (bad, good)):
        found = against("compiled", request(), *pair)
        assert found.image is None
        assert found.latent is None
        assert found.note is not None
        assert "not finite" in found.note
    assert against("compiled", request(), None, good).note == "the compiled arm raised"


# The control arm.


def test_reordering_the_norms_moves_the_result_a_little_and_is_undone(model: torch.nn.Module) -> None:
    before = run(model, request())
    with norm_reduction_in_lanes(model) as changed:
        moved = run(model, request())
    assert changed == sum(isinstance(module, RMSNorm) for module in model.modules())
    assert 0 < max_abs(moved, before) < 1e-4
    assert bitwise(run(model, request()), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_but_the_mean_differs_from_diffusers(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("tiny", dtype=dtype, **SMALL)
    before = run(model, request(steps=1))
    monkeypatch.setattr(control, "mean_of_squares", lambda x: x.to(torch.float32).pow(2).mean(-1, keepdim=True))
    with norm_reduction_in_lanes(model):
        assert bitwise(run(model, request(steps=1)), before)


def test_the_mean_in_lanes_is_the_mean() -> None:
    x = torch.randn(3, 96, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(control.mean_of_squares(x)[:, 0], x.double().square().mean(-1).float())
    assert control.mean_of_squares(x.bfloat16()).dtype == torch.float32
    assert control.mean_of_squares(x[:0]).shape == (0, 1)


def test_an_exception_inside_still_undoes_the_control() -> None:
    norm = RMSNorm(16, eps=1e-5)

    def own(x: torch.Tensor) -> torch.Tensor:
        return x

    norm.forward = own
    with contextlib.suppress(KeyError), norm_reduction_in_lanes(norm):
        assert norm.forward is not own
        raise KeyError
    assert norm.forward is own


def test_norms_that_cannot_be_reordered_are_refused_and_left_alone() -> None:
    model = torch.nn.ModuleList([RMSNorm(16, eps=1e-5), RMSNorm(12, eps=1e-5)])
    with pytest.raises(ValueError, match="12 elements"), norm_reduction_in_lanes(model):
        pass
    assert all("forward" not in vars(norm) for norm in model)
    with pytest.raises(ValueError, match="nothing to reorder"), norm_reduction_in_lanes(torch.nn.Linear(8, 8)):
        pass


# Times.


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


# Arms.


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


def test_options_of_inductor_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[Any] = []

    def run(model: Any, requests: Any, settings: Settings) -> None:
        handed.append(settings.compile_options)
        msg = "far enough"
        raise ValueError(msg)

    monkeypatch.setattr("models.denoising.__main__.run_arms", run)
    command("--backend", "inductor", "--inductor", "epilogue_fusion=false", "--inductor", "a.b=text")
    assert handed == [{"options": {"epilogue_fusion": False, "a.b": "text"}}]


@pytest.mark.parametrize(
    ("requests", "settings", "sentence"),
    [
        ([], {}, "there is no request"),
        ([request(text_len=5000)], {}, "5001 positions"),
        ([request()], {"control": True}, "60 elements"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(
    requests: list[Request], settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        run_arms(build("tiny", text_feat_dim=60, **SMALL), requests, Settings(**settings))


# The command.


def command(*arguments: str) -> Result:
    small = ("--size", "tiny", "--steps", "2", "--backend", "eager", "--set", "num_layers=1")
    return CliRunner().invoke(main, [*small, *arguments])


def strict_json(data: bytes) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise AssertionError(name)

    found: dict[str, Any] = json.loads(data, parse_constant=refuse)
    return found


@pytest.mark.usefixtures("fresh_dynamo")
def test_the_command_prints_two_tables_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    done = command("--request", "128x112x77", "--request", "160x112x33", "--remedies", "settings", "--json", str(file))
    assert done.exit_code == 0, done.output
    for words in ("128x112x77", "160x112x33", "compiled", "ms/step p50", "not measured", "PSNR dB", "rel L2"):
        assert words in done.output
    found = strict_json(file.read_bytes())
    assert found["order"] == ["eager", "compiled", "compiled", "eager"]
    assert found["model"]["num_layers"] == 1
    assert found["settings"]["remedies"] == "settings"
    assert [one["request"]["height"] for one in found["arms"][0]["measured"]] == [128, 160]
    assert [one["compiles"] for one in found["arms"][1]["measured"]] == [2, 0]
    assert found["arms"][0]["measured"][0]["peak_bytes"] is None


@pytest.mark.usefixtures("fresh_dynamo")
def test_the_command_exits_1_where_an_arm_raised() -> None:
    done = command("--height", "128", "--width", "112", "--attention", "flash_opaque", "--no-fused")
    assert done.exit_code == 1
    assert "compiled, 128x112x77: Unsupported" in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--height", "100"), "Height and width are positive multiples of 16 pixels, not 100 x 256."),
        (("--request", "64x64"), "'64x64' is not HEIGHTxWIDTHxTEXT_LEN, such as 1024x768x77."),
        (("--request", "64x64x5", "--width", "64"), "--request stands in place of --height"),
        (("--text-len", "5000"), "needs 5001 positions"),
        (("--device", "tpu"), "'tpu' is not cpu, cuda or cuda:N."),
        (("--device", "cuda:99"), "cuda:99 is not there"),
        (("--set", "depth=3"), "'depth' is no setting of the model"),
        (("--set", "num_layers"), "'num_layers' is not NAME=VALUE."),
        (
            ("--set", "num_kv_heads=3"),
            "The model cannot be built: 4 query heads cannot share 3 key-value heads evenly.",
        ),
        (("--set", "num_kv_heads=0"), "The model cannot be built: integer modulo by zero."),
        (("--set", "attention_backend=flash"), "attention_backend has an option of its own, --attention."),
        (("--size", "huge"), "'huge' is not one of"),
        (("--steps", "0"), "A run has at least 1 step, not 0."),
        (("--repeat", "0"), "Arms take turns at least once, not 0 times."),
        (("--warmup", "-1"), "0 steps or more are left out to warm up, not -1."),
        (("--inductor", "epilogue_fusion=false"), "the backend eager has no options of Inductor's."),
        (("--inductor", "epilogue_fusion", "--backend", "inductor"), "'epilogue_fusion' is not NAME=VALUE."),
        (("--remedies", "hope"), "'hope' is not one of"),
        (("--json", "/no/such/folder/found.json"), "/no/such/folder is no folder."),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_sentence(arguments: tuple[str, ...], words: str) -> None:
    done = command(*arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert "Traceback" not in done.output
