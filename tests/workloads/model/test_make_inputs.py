"""Inputs are made as they were described: sizes, dtypes, layouts, and the same values every time."""

from __future__ import annotations

import pytest
import torch

from compilescope.workloads.model.input_spec import DTYPES, read_inputs
from compilescope.workloads.model.make_inputs import make


def made(*texts: str, device: str = "cpu", **values: int | str | None) -> dict[str, object]:
    return make(read_inputs(texts), values, device=device)


def tensor(text: str, device: str = "cpu", **values: int) -> torch.Tensor:
    value = made(f"x={text}", device=device, **values)["x"]
    assert isinstance(value, torch.Tensor)
    return value


@pytest.mark.parametrize("name", DTYPES)
def test_tensor_has_the_dtype_and_the_sizes(name: str) -> None:
    value = tensor(f"{name}[b,2*b,0]", b=3)
    assert value.dtype is getattr(torch, DTYPES[name])
    assert value.shape == (3, 6, 0)


def test_values_are_the_same_every_time() -> None:
    assert torch.equal(tensor("f32[5,7]"), tensor("f32[5,7]"))


def test_integers_stay_below_their_bound_and_vary() -> None:
    value = tensor("i64[50] < 3")
    assert set(value.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("dtype", ["bool", "i64"])
def test_every_row_of_a_mask_has_both_values(dtype: str) -> None:
    rows = tensor(f"{dtype}[40,2]").long()
    assert rows[:, 0].all()
    assert not rows[:, -1].any()


def test_slice_and_transposed_are_views_that_are_not_contiguous() -> None:
    for layout in ("slice", "transposed"):
        value = tensor(f"f32[4,6].{layout}")
        assert value.shape == (4, 6)
        assert not value.is_contiguous()
    assert tensor("f32[4,6]").is_contiguous()


def test_meta_tensors_have_no_values() -> None:
    assert tensor("f32[b,2]", device="meta", b=4).device.type == "meta"


def test_containers_literals_dtypes_and_axes_are_handed_over() -> None:
    values = made("xs=[f32[b], (1, b)]; d={'k': none}; t=torch.float16; s='a'", b=3)
    sizes, pair = values["xs"]  # type: ignore[misc]  # a list, as was asked
    assert sizes.shape == (3,)
    assert pair == (1, 3)
    assert values["d"] == {"k": None}
    assert values["t"] is torch.float16
    assert values["s"] == "a"
