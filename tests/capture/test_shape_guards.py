"""Shape guards that fail: their form, the operand that changed, and strides that follow from sizes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from compilescope.capture import shape_guards
from compilescope.capture.compiled_for import CompiledFor, note_value
from compilescope.capture.refused_leaf import Frame
from compilescope.record import Failure, Moved

X, Y = "L['x'].size()[0]", "L['y'].size()[1]"


def frame(was: dict[str, object] | None = None, /, **now: object) -> Frame:
    """Return a frame with these locals, and an entry that was compiled for others, if any."""
    code = frame.__code__
    if was is None:
        return Frame({"L": now}, code)
    values = {f"L['{name}']": note_value(value) for name, value in was.items()}
    return Frame({"L": now}, code, CompiledFor(values, thread=0, modes=()))


def only(text: str, given: Frame) -> Failure:
    (found,) = shape_guards.failures(text, "LAMBDA_GUARD", given)
    return found


@pytest.mark.parametrize(
    ("expression", "comment", "form"),
    [
        (f"2 <= {X}", "", "at_least_two"),
        (f"{X} == 5", "", "constant"),
        (f"{X} <= 9", "", "bound"),
        (f"2 <= {X} <= 9", "", "bound"),
        (f"{X} != 5", "", "bound"),
        (f"({X} % 8) == 0", "", "divisible"),
        (f"{X} == {Y}", "", "equal"),
        (f"{X} == {Y}", "# duck sizing added this equality because ...", "duck"),
        (f"{X} == 2*{Y}", "", "relation"),
        (f"{X} < {Y}", "", "relation"),
        ("L['x'].stride()[0] == L['x'].size()[1]", "", "equal"),
        ("L['n'] == 3", "", "value"),
        (f"L['n'] == {X}", "", "value"),
        ("3 == 3", "", "value"),
    ],
)
def test_form_of_an_expression_is_named(expression: str, comment: str, form: str) -> None:
    assert shape_guards.form(expression, comment) == form


def test_expression_that_holds_is_not_a_failure() -> None:
    assert list(shape_guards.failures(f"{X} == 4", "LAMBDA_GUARD", frame(x=torch.ones(4)))) == []


def test_expression_that_fails_says_what_it_wanted_and_what_it_met() -> None:
    failure = only(f"2 <= {X}  # return x  # a.py:3 in f", frame(x=torch.ones(1)))
    assert (failure.source, failure.expected, failure.actual, failure.part) == (
        "x.size()[0]",
        ">= 2",
        "1",
        "at_least_two",
    )
    assert failure.where is not None
    assert (failure.where.line, failure.where.text, failure.where.function) == (3, "return x", "f")


def test_expression_that_raises_is_a_failure_that_keeps_its_own_text() -> None:
    failure = only(f"{X} == {Y}", frame(x=torch.ones(4), y=None))
    assert failure.guard == "x.size()[0] == y.size()[1]"
    assert failure.raised is not None
    assert failure.raised.startswith("AttributeError")
    assert failure.actual == "x.size()[0] = 4, y.size()[1] = not there (AttributeError)"


def test_text_that_is_not_python_is_left_to_others() -> None:
    assert list(shape_guards.failures("no python at all", "LAMBDA_GUARD", frame())) == []


# --- the operand that changed ---------------------------------------------------------------------

PRODUCT = f"(L['patch']*{X}) == 28"


def test_product_of_a_size_and_a_number_is_about_the_size_where_only_that_changed() -> None:
    failure = only(PRODUCT, frame({"patch": 4, "x": torch.ones(7)}, patch=4, x=torch.ones(9)))
    assert (failure.part, failure.source) == ("relation", "x.size()[0]")
    assert failure.moved == (Moved(source="x.size()[0]", was=7, now=9),)


def test_product_of_a_size_and_a_number_is_about_the_number_where_only_that_changed() -> None:
    failure = only(PRODUCT, frame({"patch": 4, "x": torch.ones(7)}, patch=5, x=torch.ones(7)))
    assert (failure.part, failure.source, failure.expected, failure.actual) == ("value", "patch", "4", "5")


def test_product_is_about_both_where_both_changed() -> None:
    given = frame({"patch": 4, "x": torch.ones(7)}, patch=5, x=torch.ones(9))
    found = shape_guards.failures(PRODUCT, "LAMBDA_GUARD", given)
    assert [(failure.part, failure.source) for failure in found] == [("value", "patch"), ("relation", "x.size()[0]")]


RANGE = f"2 <= {X} <= 15"


@pytest.mark.parametrize(
    ("size", "part", "expected"), [(1, "at_least_two", ">= 2"), (16, "bound", "2 <= x.size()[0] <= 15")]
)
def test_range_is_left_at_the_end_that_the_size_left(size: int, part: str, expected: str) -> None:
    failure = only(RANGE, frame({"x": torch.ones(4)}, x=torch.ones(size)))
    assert (failure.part, failure.expected) == (part, expected)


# --- layout ---------------------------------------------------------------------------------------

STRIDE = "L['x'].stride()[0] == L['x'].size()[1]*L['x'].size()[2]"


@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_stride_of_a_contiguous_tensor_follows_from_its_sizes_also_of_an_empty_one(tokens: int) -> None:
    given = frame({"x": torch.ones(2, 7, 6)}, x=torch.ones(2, tokens, 6))
    for failure in shape_guards.failures(STRIDE, "LAMBDA_GUARD", given):
        assert failure.part == "relation"
        assert {(moved.was, moved.now) for moved in failure.moved} == {(7, tokens)}


def test_empty_stream_fails_the_relation_of_its_strides_for_its_size_alone() -> None:
    failure = only(STRIDE, frame({"x": torch.ones(2, 7, 6)}, x=torch.ones(2, 0, 6)))
    assert failure.part == "relation"


@pytest.mark.parametrize("was", [torch.ones(2, 7, 6), torch.ones(2, 9, 6)[:, :7]])
def test_stride_of_a_slice_is_layout(was: Tensor) -> None:
    failure = only("L['x'].stride()[0] == 42", frame({"x": was}, x=torch.ones(2, 8, 6)[:, :7]))
    assert (failure.part, failure.source, failure.actual) == ("stride", "x.stride()[0]", "48")


def test_slice_of_another_size_is_layout_too() -> None:
    failure = only(STRIDE, frame({"x": torch.ones(2, 7, 6)}, x=torch.ones(2, 8, 6)[:, :5]))
    assert failure.part == "stride"


def test_several_strides_of_one_tensor_are_reported_together() -> None:
    failure = only("2 <= L['x'].stride()[0]", frame({"x": torch.ones(3, 4)}, x=torch.ones(4, 3).t()))
    assert (failure.source, failure.expected, failure.actual) == ("x.stride()", "(4, 1)", "(1, 3)")


@pytest.mark.parametrize(("image", "part"), [(torch.ones(3, 4), "dense_stride"), (torch.ones(3, 9)[:, :4], "stride")])
def test_where_the_old_strides_are_unknown_a_contiguous_tensor_is_told_from_a_slice(image: Tensor, part: str) -> None:
    assert only("L['x'].stride()[0] == 7", frame(x=image)).part == part


def test_offset_that_equalled_a_size_is_about_the_size_where_only_that_changed() -> None:
    text = f"L['x'].storage_offset() == {Y}"
    was = {"x": torch.ones(9)[3:], "y": torch.ones(2, 3)}
    assert only(text, frame(was, x=torch.ones(9)[3:], y=torch.ones(2, 4))).part == "equal"
    assert only(text, frame(was, x=torch.ones(9)[4:], y=torch.ones(2, 3))).part == "storage_offset"


# --- views ----------------------------------------------------------------------------------------


def test_relation_to_the_base_of_what_is_not_a_view_says_that() -> None:
    failure = only("L['x']._base.size()[0] == L['x'].size()[0]", frame(x=torch.ones(4)))
    assert (failure.part, failure.source, failure.expected, failure.actual) == (
        "base",
        "x._base",
        "a view of another tensor",
        "not a view (its _base is None)",
    )


def test_base_that_is_still_there_is_about_its_size() -> None:
    given = frame({"x": torch.ones(5, 2).t()}, x=torch.ones(1, 2).t())
    failure = only("2 <= L['x']._base.size()[0]", given)
    assert (failure.part, failure.source) == ("at_least_two", "x._base.size()[0]")
    assert failure.moved == (Moved(source="x._base.size()[0]", was=5, now=1),)
