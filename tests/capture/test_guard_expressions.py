"""Guard expressions: parted from their comments, the values that they read, and what holds a value."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from compilescope.capture import guard_expressions

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
    assert tuple(" ".join(part.split()) for part in guard_expressions.split(text)) == (
        expression,
        " ".join(comment.split()),
    )


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
    assert tuple(symbol.name for symbol in guard_expressions.symbols(expression)) == names


def test_what_holds_a_value_is_known() -> None:
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
    assert {source: guard_expressions.holder(source, scope, frame.__code__) for source in held} == held


class Making(dict[str, int]):
    def __missing__(self, key: str) -> int:
        self[key] = len(key)
        return self[key]


@pytest.mark.parametrize("made", [defaultdict(int), Making()])
@pytest.mark.parametrize("source", ["L['d']['k']", "dict.__getitem__(L['d'], 'k')"])
def test_looking_at_a_dict_that_makes_what_it_lacks_adds_nothing(made: dict[str, int], source: str) -> None:
    with pytest.raises(KeyError):
        guard_expressions.evaluate(source, {"L": {"d": made}})
    assert dict(made) == {}
    assert guard_expressions.evaluate(source, {"L": {"d": defaultdict(int, k=3)}}) == 3


def test_value_behind_a_module_is_told_from_one_behind_another_object() -> None:
    model = torch.nn.Module()
    model.config = SimpleNamespace(steps=[3])
    scope = {"L": {"self": model, "plan": SimpleNamespace(steps=[3])}}
    assert guard_expressions.in_module("L['self'].config.steps[0]", scope)
    assert not guard_expressions.in_module("L['plan'].steps[0]", scope)
    assert not guard_expressions.in_module("L['self']", scope), "the module itself is not reached through one"
    assert not guard_expressions.in_module("no source at all", scope)
