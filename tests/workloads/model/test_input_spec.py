"""What ``--input`` says is read by Python's own parser; what it cannot mean is refused in a sentence that helps."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilescope.errors import UsageError
from compilescope.workloads.model.input_spec import DTYPES, Constant, Size, TensorSpec, read_inputs

if TYPE_CHECKING:
    from compilescope.record import Scalar


def tensor(text: str) -> TensorSpec:
    (spec,) = read_inputs([text]).tensors
    return spec


def shape(spec: str, **values: Scalar) -> list[int]:
    return [size.at(values) for size in tensor(spec).sizes]


def refusal(*texts: str) -> str:
    with pytest.raises(UsageError) as caught:
        read_inputs(texts)
    return str(caught.value)


def test_names_in_brackets_are_axes_without_values() -> None:
    assert read_inputs(["x=f32[batch,seq,16]"]).axes == {"batch": None, "seq": None}


def test_sizes_are_sums_products_and_differences_of_axes() -> None:
    assert shape("x=bf16[batch,height*width,text+1,2*n-1]", batch=2, height=3, width=5, text=7, n=4) == [2, 15, 8, 7]


def test_tensor_without_dimensions_has_none() -> None:
    assert tensor("t=f32[]").sizes == ()


@pytest.mark.parametrize("name", [*DTYPES, *DTYPES.values()])
def test_dtypes_have_short_names_and_torch_s_own(name: str) -> None:
    assert tensor(f"x={name}[2]").dtype == DTYPES.get(name, name)


def test_bound_and_layout_belong_to_the_tensor() -> None:
    assert tensor("ids=i64[b,s] < 1000").below == 1000
    assert tensor("x=f32[b,s].slice").layout == "slice"
    assert tensor("x=f32[b,s].transposed").layout == "transposed"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("scale=0.5,1.0", (0.5, 1.0)),
        ("mode='fast','slow'", ("fast", "slow")),
        ("flag=true|false", (True, False)),
        ("n=-1,2", (-1, 2)),
        ("mask=none|bool[b]", (None, "bool[b]")),
        ("x=f32[b, 2]|f16[b, 2]", ("f32[b,2]", "f16[b,2]")),
        ("pair=(1,2)|(3,4)", ("(1,2)", "(3,4)")),
    ],
)
def test_alternatives_make_an_axis_of_the_input_s_name(text: str, values: tuple[Scalar, ...]) -> None:
    assert read_inputs([text]).axes[text.partition("=")[0]] == values


def test_input_with_one_value_varies_nothing() -> None:
    inputs = read_inputs(["scale=0.5", "pair=(1, 2)"])
    assert inputs.axes == {}


def test_semicolons_separate_inputs() -> None:
    assert [spec.name for spec in read_inputs(["x=f32[2]; y=none", "z=1"]).specs] == ["x", "y", "z"]


def test_whole_number_that_sizes_name_is_their_axis() -> None:
    inputs = read_inputs(["height=64,32", "x=f32[height]"])
    assert inputs.axes == {"height": (64, 32)}
    assert inputs.specs[0].chosen({"height": 32}) == Constant(32)


def test_axis_can_be_handed_over_as_an_argument() -> None:
    inputs = read_inputs(["h=h", "x=f32[h]"])
    assert inputs.axes == {"h": None}
    value = inputs.specs[0].chosen({"h": 5})
    assert isinstance(value, Size)
    assert value.at({"h": 5}) == 5


def test_alternative_is_chosen_by_its_label_and_a_literal_may_be_any_other() -> None:
    mask, scale = read_inputs(["mask=none|bool[b]", "scale=0.5,1.0"]).specs
    assert isinstance(mask.chosen({"mask": "bool[b]"}), TensorSpec)
    assert mask.chosen({"mask": None}) == Constant(None)
    assert scale.chosen({"scale": 3.0}) == Constant(3.0)
    with pytest.raises(UsageError, match=r"The input mask has no alternative f32\[b\]: it is None or bool\[b\]\."):
        mask.chosen({"mask": "f32[b]"})


def test_negative_size_is_told_with_its_point() -> None:
    with pytest.raises(UsageError, match=r"The size n-2 is negative at n=1\."):
        shape("x=f32[n - 2]", n=1)


def test_size_that_is_not_a_whole_number_is_told() -> None:
    with pytest.raises(UsageError, match=r"The axis n is a size, and 'a' is not a whole number\."):
        shape("x=f32[n]", n="a")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x=f33[2]", "'f33' is not a dtype. Did you mean f32?"),
        ("x=zzz[2]", "'zzz' is not a dtype. Dtypes are bool, u8"),
        ("x=f32[-1,2]", "the size -1 is negative; a size that varies has a name, such as batch."),
        ("x=f32[2.5]", "2.5 is not a size"),
        ("x=f32[True]", "True is not a size"),
        ("x=f32[b", "'[' was never closed"),
        ("x", "is not of the form NAME=VALUE"),
        ("x.y=f32[2]", "is not of the form NAME=VALUE"),
        ("", "is empty"),
        ("x=f32", "f32 needs its sizes, such as f32[batch,16]; the dtype itself is torch.float32."),
        ("x=f32[2] < 5", "only integers have a bound; f32[2] < 5 is float32."),
        ("x=i64[2] > 5", "is not of the form i64[batch,seq] < 1000."),
        ("x=i64[2] < 0", "is not of the form i64[batch,seq] < 1000."),
        ("x=f32[2].slise", "'slise' is not a layout; a tensor may be .slice or .transposed. Did you mean slice?"),
        ("x=f32[2].transposed", "has too few dimensions to be .transposed."),
        ("x=f32[].slice", "has too few dimensions to be .slice."),
        ("x=open('a')", "is neither a tensor such as f32[batch,16] nor a Python literal."),
        ("x={y: 1}", "are not all literals."),
        ("x=f32[x]", "x is a tensor and the name of an axis; give the axis another name."),
    ],
)
def test_what_cannot_be_meant_is_told_with_the_fix(text: str, said: str) -> None:
    assert said in refusal(text)


def test_input_that_is_given_twice_is_told() -> None:
    assert refusal("x=f32[2]", "x=none") == "--input gives 'x' twice; write alternatives as x=A|B."


@given(st.text(max_size=30) | st.text("x=f32[]()|,;.<'ab0-*+ ", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(read_inputs([text]).axes, dict)


def test_text_that_is_nested_too_deeply_is_refused() -> None:
    assert "cannot be read" in refusal(f"x={'-' * 100_000}1")
