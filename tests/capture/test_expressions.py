"""Guard expressions: parted from their comments, named by their form, asked, and laid to what holds the value."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from compilescope.capture import expressions

X, Y = "L['x'].size()[0]", "L['y'].size()[1]"


@pytest.mark.parametrize(
    ("text", "expression", "comment"),
    [
        ("2 <= L['x'].size()[0]  # return x  # a.py:3 in f", "2 <= L['x'].size()[0]", "# return x  # a.py:3 in f"),
        ("L['a'] == '#'  # a.py:3 in f", "L['a'] == '#'", "# a.py:3 in f"),
        ("L['a'] == 3", "L['a'] == 3", ""),
        ("___check_type_id(L['x'], 1) (HINT: type A)", "___check_type_id(L['x'], 1)", "(HINT:  type A)"),
    ],
)
def test_comment_is_parted_from_the_expression(text: str, expression: str, comment: str) -> None:
    assert tuple(" ".join(part.split()) for part in expressions.split(text)) == (expression, " ".join(comment.split()))


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
        ("L['x'].stride()[0] == L['x'].size()[1]", "", "stride"),
        ("2 <= L['x'].stride()[0]", "", "stride"),
        ("L['x'].storage_offset() == 3", "", "storage_offset"),
        ("L['x']._base.size()[0] == L['x'].size()[1]", "", "base"),
        ("L['n'] == 3", "", "value"),
        (f"L['n'] == {X}", "", "value"),
        ("L['x'] is L['y']", "", "aliasing"),
        ("3 == 3", "", "value"),
    ],
)
def test_form_of_an_expression_is_named(expression: str, comment: str, form: str) -> None:
    assert expressions.form(expression, comment) == form


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (f"{X} == 1 + {Y}", ("x.size()[0]", "y.size()[1]")),
        (f"{X} + {X} == 4", ("x.size()[0]",)),
        ("L['self']._modules['a'].weight.size()[0] == 4", ("self.a.weight.size()[0]",)),
        ("G['SCALE'] == 4", ("G['SCALE']",)),
        ("1 ==", ()),
        ("3 == 3", ()),
    ],
)
def test_symbols_are_named_once_in_order(expression: str, names: tuple[str, ...]) -> None:
    assert tuple(symbol.name for symbol in expressions.symbols(expression)) == names


CODE = test_symbols_are_named_once_in_order.__code__


def test_expression_that_holds_is_no_failure() -> None:
    assert expressions.check(f"{X} == 4", "LAMBDA_GUARD", {"L": {"x": torch.ones(4)}}, CODE) is None


def test_expression_that_fails_says_what_it_wanted_and_what_it_met() -> None:
    failure = expressions.check(
        f"2 <= {X}  # return x  # a.py:3 in f", "LAMBDA_GUARD", {"L": {"x": torch.ones(1)}}, CODE
    )
    assert failure is not None
    assert (failure.source, failure.expected, failure.actual, failure.part) == (
        "x.size()[0]",
        ">= 2",
        "1",
        "at_least_two",
    )
    assert failure.where is not None
    assert (failure.where.line, failure.where.text, failure.where.function) == (3, "return x", "f")


def test_expression_that_raises_is_a_failure_that_keeps_its_own_text() -> None:
    failure = expressions.check(f"{X} == {Y}", "LAMBDA_GUARD", {"L": {"x": torch.ones(4), "y": None}}, CODE)
    assert failure is not None
    assert failure.guard == "x.size()[0] == y.size()[1]"
    assert failure.raised is not None
    assert failure.raised.startswith("AttributeError")
    assert failure.actual == "x.size()[0] = 4, y.size()[1] = not there (AttributeError)"


def test_relation_to_the_base_of_what_is_no_view_says_that() -> None:
    text = "L['x']._base.size()[0] == L['x'].size()[0]"
    failure = expressions.check(text, "LAMBDA_GUARD", {"L": {"x": torch.ones(4)}}, CODE)
    assert failure is not None
    assert (failure.source, failure.expected, failure.actual) == (
        "x._base",
        "a view of another tensor",
        "no view (its _base is None)",
    )


@pytest.mark.parametrize(("image", "part"), [(torch.ones(3, 4), "dense_stride"), (torch.ones(3, 9)[:, :4], "stride")])
def test_stride_of_a_contiguous_tensor_is_told_from_that_of_a_slice(image: torch.Tensor, part: str) -> None:
    failure = expressions.check("L['x'].stride()[0] == 7", "LAMBDA_GUARD", {"L": {"x": image}}, CODE)
    assert failure is not None
    assert failure.part == part


def test_text_that_is_no_python_is_left_to_others() -> None:
    assert expressions.check("no python at all", "LAMBDA_GUARD", {"L": {}}, CODE) is None


def test_what_holds_a_value_is_told() -> None:
    captured = 3

    def frame() -> int:
        return captured

    module = nn.ModuleDict({"a": nn.Linear(2, 2)})
    locals_ = {
        "n": 1,
        "m": module,
        "d": {"k": 1},
        "s": [1],
        "o": SimpleNamespace(a=1),
        "x": torch.ones(2),
        "captured": 3,
    }
    scope = {"L": locals_, "G": {"STEP": 1}}
    held = {
        "L['n']": "local",
        "L['captured']": "closure",
        "L['f'].__closure__[0].cell_contents": "closure",
        "G['STEP']": "global",
        "L['m']._modules['a']": "module",
        "L['m'].training": "module",
        "L['d']['k']": "dict",
        "L['s'][0]": "sequence",
        "L['o'].a": "object",
        "L['x'].size()[0]": "tensor",
        "L['nobody'].a": None,
        "not python": None,
    }
    assert {source: expressions.holder(source, scope, frame.__code__) for source in held} == held
