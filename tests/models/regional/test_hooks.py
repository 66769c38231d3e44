"""Hooks run outside the graph, whoever put them on and when, and stay when the blocks become eager again."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import compilescope
from models.regional import regionally_compile, restore_eager

from .making import Counting, build, changed, run


@pytest.mark.usefixtures("fresh_dynamo")
def test_module_hooks_run_outside_the_graph() -> None:
    model = build()
    seen: list[tuple[str, bool]] = []

    def before(*_: object) -> None:
        print("a graph break, were it traced")  # noqa: T201
        seen.append(("before", torch.compiler.is_compiling()))

    def after(*_: object) -> None:
        seen.append(("after", torch.compiler.is_compiling()))

    model.blocks[0].register_forward_pre_hook(before)
    with compilescope.observe(["Block.forward"]) as scope:
        regionally_compile(model, backend="eager", fullgraph=True)
        model.blocks[0].register_forward_hook(after)
        run(model)

    assert seen == [("before", False), ("after", False)]
    assert scope.recording.graph_breaks == ()
    codes = [compilation.code.rpartition(":")[2] for compilation in scope.recording.compilations]
    assert sorted(codes) == ["Block.forward", "Single.forward"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("own_forward", [False, True], ids=["around", "in place of forward"])
@pytest.mark.usefixtures("fresh_dynamo")
def test_diffusers_hooks_run_outside_the_graph_and_come_off_again(own_forward: bool, when: str) -> None:  # noqa: FBT001
    hooks = pytest.importorskip("diffusers.hooks.hooks", reason="the hooks are diffusers'")
    traced: list[bool] = []

    class Around(hooks.ModelHook):
        def pre_forward(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            traced.append(torch.compiler.is_compiling())
            return args, kwargs

    class InPlace(hooks.ModelHook):
        def new_forward(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            traced.append(torch.compiler.is_compiling())
            return self.fn_ref.original_forward(*args, **kwargs)

    def hook() -> Any:
        registry = hooks.HookRegistry.check_if_exists_or_initialize(model.blocks[0])
        registry.register_hook(InPlace() if own_forward else Around(), "inner")
        registry.register_hook(Around(), "outer")
        return registry

    model, backend = build(), Counting()
    expected = run(model)
    registry = hook() if when == "before" else None
    assert regionally_compile(model, backend=backend, fullgraph=True) == 5
    registry = registry or hook()
    torch.testing.assert_close(run(model), expected, rtol=0, atol=0)
    assert traced == [False, False]
    assert (backend.graphs, backend.runs) == (2, 5)

    second = Counting()
    assert regionally_compile(model, backend=second, fullgraph=True) == 5
    run(model)
    assert (backend.runs, second.runs) == (5, 5)
    registry.remove_hook("outer")
    registry.remove_hook("inner")
    run(model)
    assert (len(traced), second.runs) == (4, 10)
    assert restore_eager(model) == 5
    assert not changed(model)


@pytest.mark.usefixtures("fresh_dynamo")
def test_diffusers_hooks_stay_when_the_blocks_become_eager_again() -> None:
    hooks = pytest.importorskip("diffusers.hooks.hooks", reason="the hooks are diffusers'")
    ran: list[torch.nn.Module] = []

    class Around(hooks.ModelHook):
        def pre_forward(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            ran.append(module)
            return args, kwargs

    model, backend = build(), Counting()
    hooks.HookRegistry.check_if_exists_or_initialize(model.blocks[0]).register_hook(Around(), "around")
    regionally_compile(model, backend=backend)

    assert restore_eager(model) == 5
    run(model)
    assert ran == [model.blocks[0]]
    assert backend.runs == 0
