"""`TENSOR_MATCH` taken apart: what of a tensor differs, and which strides merely follow from a size."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from compilescope.capture.tensor_match import Difference, Expected, differences, parse

SHAPES = st.lists(st.integers(0, 6), min_size=0, max_size=5).map(tuple)
ONCE = settings(deadline=None, max_examples=150)


def expected_of(tensor: torch.Tensor, *, dynamic: tuple[int, ...] = ()) -> Expected:
    """Return what an entry compiled for ``tensor`` expects; sizes of ``dynamic`` dimensions are not checked."""
    size = [None if index in dynamic else have for index, have in enumerate(tensor.shape)]
    keys = torch._C._dispatch_keys(tensor) | torch._C._dispatch_tls_local_include_set()
    text = (
        f"check_tensor(L['x'], {type(tensor).__qualname__}, {keys - torch._C._dispatch_tls_local_exclude_set()}, "
        f"{tensor.dtype}, device={tensor.device.index}, requires_grad={tensor.requires_grad}, size={size}, "
        f"stride={list(tensor.stride())})  # return x  # a.py:3 in f"
    )
    expected = parse(text)
    assert expected is not None
    return expected


def parts(found: list[Difference]) -> list[tuple[str, str, str, str]]:
    return [(one.part, one.suffix, one.expected, one.actual) for one in found]


@given(shape=SHAPES)
@ONCE
def test_tensor_differs_in_nothing_from_itself(shape: tuple[int, ...]) -> None:
    assert differences(expected_of(torch.empty(shape)), torch.empty(shape)) == []


@given(shapes=st.integers(0, 5).flatmap(lambda rank: st.tuples(*[st.tuples(*[st.integers(0, 6)] * rank)] * 2)))
@ONCE
def test_between_contiguous_tensors_sizes_alone_are_roots(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    old, new = shapes
    found = differences(expected_of(torch.empty(old)), torch.empty(new))
    roots = [one for one in found if one.follows is None]
    changed = [index for index, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    assert [one.suffix for one in roots] == [f".size()[{index}]" for index in changed]
    assert {one.part for one in roots} <= {"size"}


@given(shape=st.lists(st.integers(2, 5), min_size=2, max_size=4), data=st.data())
@ONCE
def test_between_transposed_tensors_of_one_order_sizes_alone_are_roots(shape: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    grown = [size + (index == 0) for index, size in enumerate(shape)]
    found = differences(expected_of(torch.empty(shape).permute(order)), torch.empty(grown).permute(order))
    assert {one.part for one in found if one.follows is None} == {"size"}


@given(shape=st.lists(st.integers(2, 5), min_size=2, max_size=3), extra=st.integers(1, 4))
@ONCE
def test_slice_of_a_wider_tensor_differs_in_stride_alone(shape: list[int], extra: int) -> None:
    wide = torch.empty([*shape[:-1], shape[-1] + extra])[..., : shape[-1]]
    (found,) = differences(expected_of(torch.empty(shape)), wide)
    assert (found.part, found.follows) == ("stride", None)


@given(sizes=st.tuples(*[st.integers(2, 5)] * 4))
@ONCE
def test_memory_format_is_named_where_each_side_has_one_of_its_own(sizes: tuple[int, ...]) -> None:
    image = torch.empty(sizes)
    turned = image.to(memory_format=torch.channels_last)
    assert parts(differences(expected_of(image), turned)) == [("memory_format", "", "contiguous", "channels_last")]
    assert parts(differences(expected_of(turned), image)) == [("memory_format", "", "channels_last", "contiguous")]


def test_memory_format_of_five_dimensions_is_named_beside_a_size() -> None:
    old = torch.empty(2, 3, 4, 5, 6)
    new = torch.empty(2, 3, 4, 5, 7).to(memory_format=torch.channels_last_3d)
    assert parts(differences(expected_of(old), new)) == [
        ("size", ".size()[4]", "6", "7"),
        ("memory_format", "", "contiguous", "channels_last"),
    ]


def test_single_channel_has_both_formats_so_its_stride_is_a_stride() -> None:
    image = torch.empty(2, 1, 4, 5)
    (found,) = differences(expected_of(image), torch.empty(2, 1, 4, 8)[..., :5])
    assert found.part == "stride"


def test_rank_hides_sizes_and_strides() -> None:
    assert parts(differences(expected_of(torch.empty(2, 3)), torch.empty(2, 3, 4))) == [("rank", ".dim()", "2", "3")]


def test_size_that_is_not_checked_is_no_difference() -> None:
    assert differences(expected_of(torch.empty(4), dynamic=(0,)), torch.empty(9)) == []


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (torch.ones(3), torch.ones(3, dtype=torch.float64), ("dtype", ".dtype", "torch.float32", "torch.float64")),
        (torch.ones(3), torch.ones(3, requires_grad=True), ("requires_grad", ".requires_grad", "False", "True")),
        (torch.ones(3), torch.ones(3, device="meta"), ("device", ".device", "cpu", "meta")),
        (nn.Parameter(torch.ones(3), requires_grad=False), torch.ones(3), ("class", "", "Parameter", "Tensor")),
    ],
    ids=["dtype", "requires_grad", "device", "class"],
)
def test_flag_is_one_difference(old: torch.Tensor, new: torch.Tensor, wanted: tuple[str, str, str, str]) -> None:
    assert parts(differences(expected_of(old), new)) == [wanted]


def test_conjugate_differs_in_its_dispatch_keys() -> None:
    image = torch.ones(3, dtype=torch.complex64)
    (found,) = differences(expected_of(image), image.conj())
    assert found.part == "dispatch_keys"
    assert "Conjugate" not in found.expected
    assert "Conjugate" in found.actual


def tensors_by_mode() -> dict[tuple[bool, bool], tuple[Expected, torch.Tensor]]:
    """Return what is expected of a tensor, and the tensor, by whether it and the call are of inference mode."""
    found = {}
    for made, called in itertools.product((False, True), repeat=2):
        with torch.inference_mode(made):
            tensor = torch.ones(3)
        with torch.inference_mode(called):
            found[made, called] = expected_of(tensor), tensor
    return found


@pytest.mark.parametrize(
    ("old", "new", "part", "wanted", "found"),
    [
        ((False, False), (True, False), "inference", "an ordinary tensor", "an inference tensor"),
        ((True, False), (False, False), "inference", "an inference tensor", "an ordinary tensor"),
        ((False, False), (False, True), "inference_mode", "False", "True"),
        ((True, True), (True, False), "inference_mode", "True", "False"),
        ((True, True), (False, True), "inference", "an inference tensor", "an ordinary tensor"),
    ],
)
def test_inference_tensor_and_inference_mode_are_told_apart(
    old: tuple[bool, bool], new: tuple[bool, bool], part: str, wanted: str, found: str
) -> None:
    known = tensors_by_mode()
    expected, (_, actual) = known[old][0], known[new]
    with torch.inference_mode(new[1]):
        (one,) = differences(expected, actual)
    assert (one.part, one.expected, one.actual) == (part, wanted, found)


def test_text_of_another_form_is_not_read() -> None:
    assert parse("check_tensor of some later torch") is None


def test_text_with_unchecked_dimensions_is_read() -> None:
    text = (
        "check_tensor(L['self']._modules['a'].weight, Parameter, DispatchKeySet(CPU, BackendSelect, AutogradCPU), "
        "torch.float32, device=0, requires_grad=True, size=[None, 16], stride=[16, None])  # x = a(x)  # m.py:4 in f"
    )
    expected = parse(text)
    assert expected == Expected(
        class_name="Parameter",
        keys=frozenset({"CPU", "AutogradCPU"}),
        dtype="torch.float32",
        device=0,
        requires_grad=True,
        size=(None, 16),
        stride=(16, None),
    )


def test_expected_values_survive_their_text() -> None:
    tensor = torch.empty(2, 3)
    expected = expected_of(tensor)
    assert math.prod(size or 0 for size in expected.size) == tensor.numel()
    assert expected.stride == tensor.stride()
