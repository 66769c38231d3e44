"""Selectors: how what the user names is turned into code objects."""

from __future__ import annotations

import functools

import pytest
from torch import nn

import compilescope
from compilescope.capture.targets import Selector, select


class Block(nn.Module):
    def forward(self) -> None:
        pass


class Child(Block):
    pass


class Pair:
    size = 3

    def first(self) -> None:
        pass

    def second(self) -> None:
        pass


def decorated(function):  # noqa: ANN001, ANN201 (a decorator like many)
    @functools.wraps(function)
    def wrapper(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
        return function(*args, **kwargs)

    return wrapper


@decorated
def wrapped() -> None:
    pass


def plain() -> None:
    pass


@pytest.mark.parametrize(
    ("target", "label", "codes"),
    [
        (plain, "plain", (plain.__code__,)),
        (Block, "Block.forward", (Block.forward.__code__,)),
        (Child, "Child.forward", (Block.forward.__code__,)),
        (Block(), "Block.forward", (Block.forward.__code__,)),
        (Pair, "Pair", (Pair.first.__code__, Pair.second.__code__)),
        (Pair().second, "Pair.second", (Pair.second.__code__,)),
        (plain.__code__, "plain", (plain.__code__,)),
        (wrapped, "decorated.<locals>.wrapper", (wrapped.__code__, wrapped.__wrapped__.__code__)),
    ],
)
def test_target_is_turned_into_its_code(target: object, label: str, codes: tuple[object, ...]) -> None:
    selector = select(target)
    assert (selector.label, selector.codes) == (label, codes)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("Block.forward", True),
        ("*.forward", True),
        ("Block.*", True),
        ("tests/capture/test_targets.py:Block.forward", True),
        ("Block", False),
        ("block.forward", False),
        ("Rock.forward", False),
    ],
)
def test_pattern_is_held_against_the_qualified_name(pattern: str, matches: bool) -> None:  # noqa: FBT001
    assert select(pattern).matches(Block.forward.__code__) == matches


def test_pattern_on_a_class_finds_the_wrapper_that_runs_for_it() -> None:
    wrapper = Selector(label="ReLU.forward", pattern="ReLU.forward")
    assert wrapper.matches(wrapped.__code__, owner="ReLU")
    assert not wrapper.matches(wrapped.__code__, owner="Tanh")


@pytest.mark.parametrize("thing", [len, 3, int, None, object()])
def test_thing_without_code_is_refused_in_a_sentence(thing: object) -> None:
    with pytest.raises(compilescope.CompilescopeError, match=r"cannot be a target: it has no .+\."):
        select(thing)
