"""Repeated blocks are compiled, each once, under whatever wrapper they lie, and nothing else is."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
import torch

import compilescope
from models.diffusers_dits import DITS, Size
from models.regional import regionally_compile, restore_eager

from .making import Block, Calls, Counting, Model, Single, build, changed, run

WRAPPED: Final = ("_fsdp_wrapped_module", "module", "_orig_mod")


class Wrapper(torch.nn.Module):
    """Holds a block under ``name``, registered or hidden, and notes whether its own work is traced."""

    def __init__(self, name: str, wrapped: torch.nn.Module, *, hidden: bool = False) -> None:
        super().__init__()
        self.name = name
        self.traced: list[bool] = []
        if hidden:
            vars(self)[name] = wrapped
        else:
            setattr(self, name, wrapped)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.traced.append(torch.compiler.is_compiling())
        return getattr(self, self.name)(x)


@pytest.mark.usefixtures("fresh_dynamo")
def test_every_repeated_block_is_compiled_and_nothing_else() -> None:
    model = build()
    expected = run(model)

    assert regionally_compile(model, backend="eager", fullgraph=True) == 5

    assert changed(model) == [f"blocks.{index}" for index in range(5)]
    torch.testing.assert_close(run(model), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("fresh_dynamo")
def test_blocks_compile_as_often_as_there_are_kinds_of_them() -> None:
    model = build()
    backend = Counting()
    with compilescope.observe(["Block.forward", "Single.forward"]) as scope:
        regionally_compile(model, backend=backend, fullgraph=True, options={"any": 1})
        run(model)
        run(model)

    compiled = Counter(compilation.code.rpartition(":")[2] for compilation in scope.recording.compilations)
    assert compiled == {"Block.forward": 1, "Single.forward": 1}
    assert (backend.graphs, backend.runs) == (2, 10)


@pytest.mark.usefixtures("fresh_dynamo")
def test_all_blocks_of_a_real_transformer_compute_what_they_computed_eager() -> None:
    pytest.importorskip("diffusers", reason="the model is diffusers'")
    dit, size = DITS["flux2"], Size(3, 7, 7)
    model = dit.build()
    expected, keys = dit.call(model, size), list(model.state_dict())
    blocks = sum(type(module).__name__ in dit.blocks for module in model.modules())

    assert regionally_compile(model, backend="eager", fullgraph=True) == blocks > len(dit.blocks)

    torch.testing.assert_close(dit.call(model, size), expected, rtol=0, atol=0)
    assert list(model.state_dict()) == keys


def test_a_block_under_two_names_is_compiled_once(calls: Calls) -> None:
    shared = Block()

    assert regionally_compile(Model(shared, Block(), shared)) == len(calls.kwargs) == 2


def test_the_model_itself_may_be_a_repeated_block(calls: Calls) -> None:
    model = Block()
    model._repeated_blocks = ["Block"]

    assert regionally_compile(model) == 1


def test_a_subclass_of_a_listed_class_is_not_listed(calls: Calls) -> None:
    class Derived(Block):
        pass

    assert regionally_compile(Model(Derived(), Single())) == 1


def test_items_of_a_declared_list_are_blocks_whatever_their_class(calls: Calls) -> None:
    model = build()
    model._repeated_blocks = ["Absent"]
    model._layerwise_offload_blocks_attrs = ["blocks"]
    outer = torch.nn.ModuleDict({"blocks": torch.nn.ModuleDict({"first": Block()}), "inner": model})
    outer._repeated_blocks, outer._layerwise_offload_blocks_attrs = ["Absent"], ["blocks"]

    assert regionally_compile(outer) == 5
    assert changed(outer) == [f"inner.blocks.{index}" for index in range(5)]


def test_an_item_of_a_declared_list_is_found_under_its_second_name_too(calls: Calls) -> None:
    model = build()
    model.embed = model.blocks[0]
    model._repeated_blocks, model._layerwise_offload_blocks_attrs = ["Absent"], ["blocks"]

    assert regionally_compile(model) == 5


@pytest.mark.parametrize("hidden", [False, True], ids=["registered", "hidden"])
@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.usefixtures("fresh_dynamo")
def test_of_a_wrapper_and_its_block_only_the_block_is_compiled(name: str, hidden: bool) -> None:  # noqa: FBT001
    wrapper = Wrapper(name, Block(), hidden=hidden)
    model = Model(wrapper, Single())
    expected = run(model)
    wrapper.traced.clear()

    assert regionally_compile(model, backend="eager", fullgraph=True) == 2

    assert "forward" in vars(getattr(wrapper, name))
    assert "forward" not in vars(wrapper)
    torch.testing.assert_close(run(model), expected, rtol=0, atol=0)
    assert wrapper.traced == [False]
    assert restore_eager(model) == 2
    assert "forward" not in vars(getattr(wrapper, name))


@pytest.mark.parametrize("listed", [["Block"], ["Block", "Wrapper"], ["Absent"]], ids=["block", "both", "by place"])
def test_of_wrappers_in_wrappers_the_innermost_block_is_compiled(calls: Calls, listed: list[str]) -> None:
    model = Model(Wrapper("_fsdp_wrapped_module", Wrapper("module", Block())))
    model._repeated_blocks, model._layerwise_offload_blocks_attrs = listed, ["blocks"]

    assert regionally_compile(model) == 1
    assert changed(model) == ["blocks.0._fsdp_wrapped_module.module"]


def test_a_block_with_a_part_called_module_is_compiled_whole(calls: Calls) -> None:
    block = Block()
    block.module = torch.nn.Linear(4, 4)

    assert regionally_compile(Model(block)) == 1
    assert "forward" in vars(block)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch is built without distributed")
def test_a_sharded_block_is_the_block_that_it_was() -> None:
    """``fully_shard`` derives a class of another name; it gathers in hooks, which stay outside the graph."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = build()
    expected = run(model)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        for block in model.blocks:
            fully_shard(block, mesh=init_device_mesh("cpu", (1,)))
        with compilescope.observe(["Block.forward", "Single.forward"]) as scope:
            assert regionally_compile(model, backend="eager", dynamic=True, fullgraph=True) == len(model.blocks)
            torch.testing.assert_close(run(model), expected)
    finally:
        torch.distributed.destroy_process_group()
    assert {target.status for target in scope.recording.targets} == {"compiled"}
    assert not scope.recording.graph_breaks
