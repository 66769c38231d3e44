"""One launch for each layer, eager and compiled, by a formula of depth."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers", reason="the models are diffusers'")

import fused_ops  # noqa: E402 (behind the skips)
from models.families import FAMILIES, FUSED, Size  # noqa: E402
from models.families.recipe import Launches  # noqa: E402
from models.regional import regionally_compile  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

RELEASED = {
    "qwen_image": Launches(joint=60),
    "flux": Launches(joint=19, per_stream=38),
    "flux2": Launches(joint=8, per_stream=48),
    "hunyuan_video15": Launches(joint=54),
    "z_image": Launches(per_stream=34),
    "ovis_image": Launches(joint=6, per_stream=27),
}
# Few tokens and layers, as the interpreter takes milliseconds for each token of each layer.
SIZE = Size(1, 3, 2)
DEPTHS = {
    "qwen_image": {"num_layers": 2},
    "flux": {"num_layers": 1, "num_single_layers": 2},
    "flux2": {"num_layers": 1, "num_single_layers": 2},
    "hunyuan_video15": {"num_layers": 1},
    "z_image": {"n_layers": 1, "n_refiner_layers": 1},
    "ovis_image": {"num_layers": 2, "num_single_layers": 1},
}


def released(name: str) -> Mapping[str, Any]:
    family = FAMILIES[name]
    parameters = inspect.signature(getattr(diffusers, family.class_name).__init__).parameters
    return {key: one.default for key, one in parameters.items()} | dict(family.full)


def launched(name: str, *, compiled: bool, joint: bool = True) -> tuple[fused_ops.LaunchCounts, torch.nn.Module]:
    family = FAMILIES[name]
    model, eager = family.build(**DEPTHS[name]), family.build(**DEPTHS[name])
    family.fuse(model, joint=joint)
    if compiled:
        regionally_compile(model, dynamic=True, fullgraph=True, backend="eager")
    with fused_ops.count_launches() as counts:
        fused = family.call(model, SIZE)
    torch.testing.assert_close(fused, family.call(eager, SIZE), rtol=1e-5, atol=1e-5)
    return counts, model


@pytest.mark.parametrize("name", FUSED)
def test_released_depth_launches_as_often_as_it_has_layers(name: str) -> None:
    assert FAMILIES[name].launches(released(name)) == RELEASED[name]


@pytest.mark.usefixtures("kernel_runs")
@pytest.mark.parametrize("name", FUSED)
def test_forward_launches_the_kernel_once_for_each_layer(name: str) -> None:
    counts, model = launched(name, compiled=False)
    assert Launches(counts.joint, counts.per_stream) == FAMILIES[name].launches(model.config)


@pytest.mark.usefixtures("kernel_runs", "fresh_dynamo")
@pytest.mark.parametrize("name", ["qwen_image", "flux2"])
def test_compiled_forward_launches_as_often(name: str) -> None:
    counts, model = launched(name, compiled=True)
    assert Launches(counts.joint, counts.per_stream) == FAMILIES[name].launches(model.config)


@pytest.mark.usefixtures("kernel_runs")
def test_without_the_joint_op_each_stream_has_a_launch() -> None:
    counts, model = launched("qwen_image", compiled=False, joint=False)
    assert (counts.joint, counts.per_stream) == (0, 2 * model.config["num_layers"])


@pytest.mark.slow
@pytest.mark.parametrize("name", FUSED)
def test_every_layer_of_the_released_depth_is_fused(name: str) -> None:
    family = FAMILIES[name]
    expected = RELEASED[name]
    assert family.fuse(family.build(size="full", device="meta")) == expected.joint + expected.per_stream
