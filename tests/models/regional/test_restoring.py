"""Blocks can be compiled again, made eager again, copied and pickled, and a failure changes none of them."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import TYPE_CHECKING

import pytest
import torch

from models.regional import regionally_compile, restore_eager

from .making import Block, Calls, Counting, Model, Single, build, changed, run

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.usefixtures("fresh_dynamo")
def test_compiling_again_replaces_the_first_compilation() -> None:
    model, first, second = build(), Counting(), Counting()
    expected = run(model)
    regionally_compile(model, backend=first)
    run(model)

    assert regionally_compile(model, backend=second) == 5
    torch.testing.assert_close(run(model), expected, rtol=0, atol=0)
    assert (first.graphs, first.runs) == (2, 5)
    assert (second.graphs, second.runs) == (2, 5)


@pytest.mark.usefixtures("fresh_dynamo")
def test_restored_blocks_run_eager_and_can_be_compiled_again() -> None:
    model, backend = build(), Counting()
    before = [set(vars(module)) for module in model.modules()]
    regionally_compile(model, backend=backend)
    regionally_compile(model, backend=backend)
    model._repeated_blocks = []

    assert restore_eager(model) == 5
    run(model)
    assert backend.runs == 0
    assert [set(vars(module)) for module in model.modules()] == before
    assert restore_eager(model) == 0

    model._repeated_blocks = ["Block"]
    assert regionally_compile(model, backend=backend) == 3
    run(model)
    assert backend.runs == 3


def test_a_forward_of_the_blocks_own_is_compiled_and_put_back(calls: Calls) -> None:
    model = Model(Block())
    own = model.blocks[0].forward = torch.neg

    regionally_compile(model)
    regionally_compile(model)
    assert model.blocks[0].forward is not own
    assert restore_eager(model) == 1
    assert model.blocks[0].forward is own


@pytest.mark.parametrize("again", [regionally_compile, restore_eager])
def test_a_compiled_forward_that_somebody_replaced_is_an_error(
    calls: Calls, again: Callable[[torch.nn.Module], int]
) -> None:
    model = build()
    regionally_compile(model)
    compiled = [block.forward for block in model.blocks]
    last = model.blocks[-1]
    last.forward = functools.partial(compiled[-1])

    with pytest.raises(RuntimeError, match=r"compiled forward of Single was replaced"):
        again(model)
    assert [block.forward for block in model.blocks[:-1]] == compiled[:-1]
    last.forward = compiled[-1]
    assert again(model) == 5


def test_a_compiled_forward_that_somebody_took_off_is_no_error(calls: Calls) -> None:
    model = build()
    regionally_compile(model)
    del model.blocks[0].forward

    assert regionally_compile(model) == 5
    del model.blocks[0].forward
    assert restore_eager(model) == 5


@pytest.mark.parametrize("fail_at", [0, 4])
def test_nothing_changes_if_one_block_cannot_be_built(monkeypatch: pytest.MonkeyPatch, fail_at: int) -> None:
    model = build()
    monkeypatch.setattr(torch, "compile", Calls(fail_at=fail_at))

    with pytest.raises(RuntimeError, match="cannot be built"):
        regionally_compile(model)
    assert not changed(model)
    assert restore_eager(model) == 0


@pytest.mark.usefixtures("fresh_dynamo")
def test_the_state_dict_keeps_its_keys_and_can_be_loaded() -> None:
    model, other = build(), Model(Block(), Block(), Block(), Single(), Single()).eval()
    keys, expected = list(model.state_dict()), run(model)
    regionally_compile(other, backend="eager")
    run(other)

    assert list(other.state_dict()) == keys
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(run(other), expected, rtol=0, atol=0)


@pytest.mark.parametrize("own", ["restored", "compiled"])
@pytest.mark.usefixtures("fresh_dynamo")
def test_a_deep_copy_computes_with_the_old_weights_until_it_has_forwards_of_its_own(own: str) -> None:
    model = build()
    regionally_compile(model, backend="eager")
    expected = run(model)
    copied = copy.deepcopy(model)
    for weights in copied.blocks.parameters():
        torch.nn.init.zeros_(weights)

    torch.testing.assert_close(run(copied), expected, rtol=0, atol=0)
    assert (restore_eager(copied) if own == "restored" else regionally_compile(copied, backend="eager")) == 5
    assert not run(copied).any()
    torch.testing.assert_close(run(model), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_compiled_model_cannot_be_pickled_and_a_restored_one_can() -> None:
    model = build()
    regionally_compile(model, backend="eager")

    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(model)
    restore_eager(model)
    assert pickle.dumps(model)
