"""Inputs that a model brings along: what of them varies is an axis, and what does not fit forward is told."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compilescope.errors import WorkloadError
from compilescope.workloads.model.examples import Example, ExampleFunction, example_of
from compilescope.workloads.model.target import ModelTarget


class Net(nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor | None = None, *, scale: float = 1.0) -> torch.Tensor:
        return x * scale


def example(value: object) -> Example:
    found = example_of(ModelTarget("Net", "m.py:Net", Net, {"example_inputs": value}), Net())
    assert isinstance(found, Example)
    return found


def refusal(value: object) -> str:
    with pytest.raises(WorkloadError) as caught:
        example(value)
    return str(caught.value)


def test_equal_sizes_are_one_axis_and_the_first_is_the_batch() -> None:
    found = example((torch.ones(2, 3), torch.tensor([[1, 5, 2], [0, 0, 0]])))
    assert found.texts == ("x=f32[batch,x_1]", "ids=i64[batch,x_1] < 6")
    assert found.sizes == {"batch": 2, "x_1": 3}


def test_masks_have_no_bound_and_literals_stay() -> None:
    found = example({"x": torch.ones(2), "ids": torch.tensor([0, 1]), "scale": 2.0})
    assert found.texts == ("x=f32[batch]", "ids=i64[batch]", "scale=2.0")


def test_example_of_the_model_comes_before_the_file_s() -> None:
    class Own(Net):
        example_inputs = torch.ones(7)

    found = example_of(ModelTarget("Own", "m.py:Own", Own, {"example_inputs": torch.ones(2, 3)}), Own())
    assert isinstance(found, Example)
    assert found.sizes == {"batch": 7}


def test_function_with_parameters_is_called_at_each_point() -> None:
    target = ModelTarget("Net", "m.py:Net", Net, {"example_inputs": lambda n: torch.ones(n, 2)})
    found = example_of(target, Net())
    assert isinstance(found, ExampleFunction)
    assert found.axes == {"n": None}
    made = found.make({"n": 3}, "cpu")["x"]
    assert isinstance(made, torch.Tensor)
    assert made.shape == (3, 2)


def test_model_without_an_example_has_none() -> None:
    assert example_of(ModelTarget("Net", "m.py:Net", Net), Net()) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"y": torch.ones(2)}, "example_inputs does not fit Net.forward: got an unexpected keyword argument 'y'."),
        (3, "example_inputs holds no tensor"),
        ({"x": torch.ones(2), "ids": [torch.ones(2)]}, "example_inputs gives ids as list"),
        ({"x": torch.ones(2, dtype=torch.complex128)}, "An example of dtype torch.complex128 cannot be varied"),
        (lambda: 1 / 0, "example_inputs raised ZeroDivisionError"),
    ],
)
def test_example_that_does_not_fit_is_told(value: object, said: str) -> None:
    assert said in refusal(value)


def test_dummy_inputs_of_a_library_are_taken_where_forward_takes_them() -> None:
    transformers = pytest.importorskip("transformers", reason="the class is transformers'")
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    text = transformers.BertModel(transformers.BertConfig(**small))
    found = example_of(ModelTarget("Bert", "transformers:BertModel", type(text)), text)
    assert isinstance(found, Example)
    assert found.texts == ("input_ids=i64[batch,input_ids_1] < 8",)
    image = transformers.ViTModel(transformers.ViTConfig(**small))
    assert example_of(ModelTarget("ViT", "transformers:ViTModel", type(image)), image) is None
