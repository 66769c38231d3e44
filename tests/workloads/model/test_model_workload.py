"""From Python a model is a workload too, and a test makes its inputs from the same words."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from compilescope import model_workload
from compilescope.errors import UsageError
from compilescope.testing import make_inputs


class Net(nn.Module):
    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return x * scale


def test_workload_of_a_class_has_the_axes_of_its_inputs() -> None:
    made = model_workload(Net, inputs=["x=f32[n,4]", "scale=0.5,2.0"], sweep={"n": (3, 5)}, compile=None)
    assert made.name == "Net"
    assert {axis.name: axis.values for axis in made.axes} == {"n": (3, 5), "scale": (0.5, 2.0)}
    result = made.build()(n=3, scale=2.0)
    assert isinstance(result, torch.Tensor)
    assert result.shape == (3, 4)
    assert not result.requires_grad


def test_device_of_the_command_line_takes_the_place_of_its_own() -> None:
    made = model_workload(Net, inputs=["x=f32[n]"], sweep={"n": (3,)}, compile=None, device="cpu")
    result = made.build({"device": "meta"})(n=3)
    assert isinstance(result, torch.Tensor)
    assert result.device.type == "meta"


def test_axis_without_values_is_told() -> None:
    with pytest.raises(UsageError, match=r"The workload of Net gives no values for n: sweep=\{'n': \(2, 3\)\}\."):
        model_workload(Net, inputs=["x=f32[n]"])


def test_declaring_imports_no_torch() -> None:
    code = "import sys, compilescope; compilescope.model_workload('m.py:Net', inputs=['x=f32[2]'], compile='whole')"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; sys.exit('torch' in sys.modules)"],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_inputs_of_a_test_are_made_from_the_same_words() -> None:
    made = make_inputs("x=f32[n,4]; mask=none|bool[n]", n=3)
    assert made["x"].shape == (3, 4)
    assert made["mask"] is None
    assert make_inputs("x=f32[n,4]", "mask=none|bool[n]", n=3, mask="bool[n]")["mask"].dtype is torch.bool


@pytest.mark.parametrize(
    ("axes", "said"), [({}, "need a value for n"), ({"n": 1, "m": 2}, "have no axis m"), ({"n": -1}, "is negative")]
)
def test_axes_that_do_not_fit_the_inputs_are_told(axes: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_inputs("x=f32[n]", **axes)
