"""What of a model is compiled: all of it, the blocks that it repeats, or what has a name."""

from __future__ import annotations

import pytest
from torch import nn

from compilescope.errors import UsageError
from compilescope.workloads.model.compiling import Compile, described, parts


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)


class Head(Block):
    pass


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(2, 2) for _ in range(5))
        self.blocks = nn.ModuleList([Block(), Head(), Block()])


class Named(Model):
    _repeated_blocks = ("Head",)


def kinds(model: nn.Module, what: str | None) -> list[str]:
    return [type(part).__name__ for part in parts(model, what)]


@pytest.mark.parametrize("what", [None, "whole"])
def test_whole_is_the_model_itself(what: str | None) -> None:
    assert kinds(Model(), what) == ["Model"]


def test_blocks_are_the_class_that_repeats_most_among_those_that_hold_modules() -> None:
    assert kinds(Model(), "blocks") == ["Block", "Block"]


def test_blocks_that_the_model_names_come_first() -> None:
    assert kinds(Named(), "blocks") == ["Head"]


@pytest.mark.parametrize("what", ["Block", "Block.forward"])
def test_class_name_stands_for_its_modules(what: str) -> None:
    assert kinds(Model(), what) == ["Block", "Block"]


def test_path_stands_for_one_module() -> None:
    model = Model()
    assert parts(model, "blocks.1") == (model.blocks[1],)


def test_unknown_name_is_told_with_a_guess() -> None:
    with pytest.raises(UsageError, match=r"--compile Blok: Model has no module of that class or name\. Did you mean"):
        parts(Model(), "Blok")


def test_model_without_repeated_blocks_is_told() -> None:
    with pytest.raises(UsageError, match="Sequential repeats no module in a list"):
        parts(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), "blocks")


def test_words_for_it_name_the_options_that_were_given() -> None:
    how = Compile("blocks", dynamic=True, backend="eager")
    assert described(parts(Model(), "blocks"), how) == "2 x Block by torch.compile(dynamic=True, backend='eager')"
    assert described(parts(Model(), None), Compile()) == "Model as a whole by torch.compile()"
