"""Regional compilation: which modules are compiled, with what, and that everything around them stays as it was."""

from __future__ import annotations

import copy
import functools
import logging
import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
import torch

import compilescope
from models.diffusers_dits import DITS, Size
from models.regional import regionally_compile, restore_eager

if TYPE_CHECKING:
    from collections.abc import Callable

WRAPPED: Final = ("_fsdp_wrapped_module", "module", "_orig_mod")


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(x)


class Single(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.linear(x))


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


class Model(torch.nn.Module):
    def __init__(self, *blocks: torch.nn.Module) -> None:
        super().__init__()
        self._repeated_blocks: Any = ["Block", "Single"]
        self.embed = torch.nn.Linear(4, 4)
        self.blocks = torch.nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return x


class Counting:
    """A backend that runs the graph as it is, and counts."""

    def __init__(self) -> None:
        self.graphs = self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor], **kwargs: object) -> Callable[..., Any]:
        self.graphs += 1

        def run(*args: torch.Tensor) -> Any:
            self.runs += 1
            return graph(*args)

        return run


class Calls:
    """Stands in for torch.compile: keeps its keyword arguments, and takes entries out of the options as it does."""

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.kwargs: list[dict[str, Any]] = []
        self.fail_at = fail_at

    def __call__(self, function: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
        if len(self.kwargs) == self.fail_at:
            msg = "cannot be built"
            raise RuntimeError(msg)
        self.kwargs.append({**kwargs, "options": dict(kwargs["options"])} if "options" in kwargs else kwargs)
        kwargs.get("options", {}).clear()
        return functools.partial(function)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    recorder = Calls()
    monkeypatch.setattr(torch, "compile", recorder)
    return recorder


def _model() -> Model:
    torch.manual_seed(0)
    return Model(Block(), Block(), Block(), Single(), Single()).eval()


def _input() -> torch.Tensor:
    return torch.linspace(-1, 1, 12).reshape(3, 4)


def _run(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(_input())


def _changed(model: torch.nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if "forward" in vars(module)]


# What is compiled


@pytest.mark.usefixtures("fresh_dynamo")
def test_every_repeated_block_is_compiled_and_nothing_else() -> None:
    model = _model()
    expected = _run(model)

    assert regionally_compile(model, backend="eager", fullgraph=True) == 5

    assert _changed(model) == [f"blocks.{index}" for index in range(5)]
    torch.testing.assert_close(_run(model), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("fresh_dynamo")
def test_blocks_compile_as_often_as_there_are_kinds_of_them() -> None:
    model = _model()
    backend = Counting()
    with compilescope.observe(["Block.forward", "Single.forward"]) as scope:
        regionally_compile(model, backend=backend, fullgraph=True, options={"any": 1})
        _run(model)
        _run(model)

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
    model = _model()
    model._repeated_blocks = ["Absent"]
    model._layerwise_offload_blocks_attrs = ["blocks"]
    outer = torch.nn.ModuleDict({"blocks": torch.nn.ModuleDict({"first": Block()}), "inner": model})
    outer._repeated_blocks, outer._layerwise_offload_blocks_attrs = ["Absent"], ["blocks"]

    assert regionally_compile(outer) == 5
    assert _changed(outer) == [f"inner.blocks.{index}" for index in range(5)]


def test_an_item_of_a_declared_list_is_found_under_its_second_name_too(calls: Calls) -> None:
    model = _model()
    model.embed = model.blocks[0]
    model._repeated_blocks, model._layerwise_offload_blocks_attrs = ["Absent"], ["blocks"]

    assert regionally_compile(model) == 5


@pytest.mark.parametrize("hidden", [False, True], ids=["registered", "hidden"])
@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.usefixtures("fresh_dynamo")
def test_of_a_wrapper_and_its_block_only_the_block_is_compiled(name: str, hidden: bool) -> None:  # noqa: FBT001
    wrapper = Wrapper(name, Block(), hidden=hidden)
    model = Model(wrapper, Single())
    expected = _run(model)
    wrapper.traced.clear()

    assert regionally_compile(model, backend="eager", fullgraph=True) == 2

    assert "forward" in vars(getattr(wrapper, name))
    assert "forward" not in vars(wrapper)
    torch.testing.assert_close(_run(model), expected, rtol=0, atol=0)
    assert wrapper.traced == [False]
    assert restore_eager(model) == 2
    assert "forward" not in vars(getattr(wrapper, name))


@pytest.mark.parametrize("listed", [["Block"], ["Block", "Wrapper"], ["Absent"]], ids=["block", "both", "by place"])
def test_of_wrappers_in_wrappers_the_innermost_block_is_compiled(calls: Calls, listed: list[str]) -> None:
    model = Model(Wrapper("_fsdp_wrapped_module", Wrapper("module", Block())))
    model._repeated_blocks, model._layerwise_offload_blocks_attrs = listed, ["blocks"]

    assert regionally_compile(model) == 1
    assert _changed(model) == ["blocks.0._fsdp_wrapped_module.module"]


def test_a_block_with_a_part_called_module_is_compiled_whole(calls: Calls) -> None:
    block = Block()
    block.module = torch.nn.Linear(4, 4)

    assert regionally_compile(Model(block)) == 1
    assert "forward" in vars(block)


# What stays outside


@pytest.mark.usefixtures("fresh_dynamo")
def test_module_hooks_run_outside_the_graph() -> None:
    model = _model()
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
        _run(model)

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

    model, backend = _model(), Counting()
    expected = _run(model)
    registry = hook() if when == "before" else None
    assert regionally_compile(model, backend=backend, fullgraph=True) == 5
    registry = registry or hook()
    torch.testing.assert_close(_run(model), expected, rtol=0, atol=0)
    assert traced == [False, False]
    assert (backend.graphs, backend.runs) == (2, 5)

    second = Counting()
    assert regionally_compile(model, backend=second, fullgraph=True) == 5
    _run(model)
    assert (backend.runs, second.runs) == (5, 5)
    registry.remove_hook("outer")
    registry.remove_hook("inner")
    _run(model)
    assert (len(traced), second.runs) == (4, 10)
    assert restore_eager(model) == 5
    assert not _changed(model)


@pytest.mark.usefixtures("fresh_dynamo")
def test_diffusers_hooks_stay_when_the_blocks_become_eager_again() -> None:
    hooks = pytest.importorskip("diffusers.hooks.hooks", reason="the hooks are diffusers'")
    ran: list[torch.nn.Module] = []

    class Around(hooks.ModelHook):
        def pre_forward(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            ran.append(module)
            return args, kwargs

    model, backend = _model(), Counting()
    hooks.HookRegistry.check_if_exists_or_initialize(model.blocks[0]).register_hook(Around(), "around")
    regionally_compile(model, backend=backend)

    assert restore_eager(model) == 5
    _run(model)
    assert ran == [model.blocks[0]]
    assert backend.runs == 0


# A second time, and back


@pytest.mark.usefixtures("fresh_dynamo")
def test_compiling_again_replaces_the_first_compilation() -> None:
    model, first, second = _model(), Counting(), Counting()
    expected = _run(model)
    regionally_compile(model, backend=first)
    _run(model)

    assert regionally_compile(model, backend=second) == 5
    torch.testing.assert_close(_run(model), expected, rtol=0, atol=0)
    assert (first.graphs, first.runs) == (2, 5)
    assert (second.graphs, second.runs) == (2, 5)


@pytest.mark.usefixtures("fresh_dynamo")
def test_restored_blocks_run_eager_and_can_be_compiled_again() -> None:
    model, backend = _model(), Counting()
    before = [set(vars(module)) for module in model.modules()]
    regionally_compile(model, backend=backend)
    regionally_compile(model, backend=backend)
    model._repeated_blocks = []

    assert restore_eager(model) == 5
    _run(model)
    assert backend.runs == 0
    assert [set(vars(module)) for module in model.modules()] == before
    assert restore_eager(model) == 0

    model._repeated_blocks = ["Block"]
    assert regionally_compile(model, backend=backend) == 3
    _run(model)
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
    model = _model()
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
    model = _model()
    regionally_compile(model)
    del model.blocks[0].forward

    assert regionally_compile(model) == 5
    del model.blocks[0].forward
    assert restore_eager(model) == 5


@pytest.mark.parametrize("fail_at", [0, 4])
def test_nothing_changes_if_one_block_cannot_be_built(monkeypatch: pytest.MonkeyPatch, fail_at: int) -> None:
    model = _model()
    monkeypatch.setattr(torch, "compile", Calls(fail_at=fail_at))

    with pytest.raises(RuntimeError, match="cannot be built"):
        regionally_compile(model)
    assert not _changed(model)
    assert restore_eager(model) == 0


def test_options_that_inductor_does_not_know_change_nothing() -> None:
    model = _model()

    with pytest.raises(RuntimeError, match="no_such_option"):
        regionally_compile(model, options={"no_such_option": 1})
    assert not _changed(model)


# State, copies, pickles


@pytest.mark.usefixtures("fresh_dynamo")
def test_the_state_dict_keeps_its_keys_and_can_be_loaded() -> None:
    model, other = _model(), Model(Block(), Block(), Block(), Single(), Single()).eval()
    keys, expected = list(model.state_dict()), _run(model)
    regionally_compile(other, backend="eager")
    _run(other)

    assert list(other.state_dict()) == keys
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(_run(other), expected, rtol=0, atol=0)


@pytest.mark.parametrize("own", ["restored", "compiled"])
@pytest.mark.usefixtures("fresh_dynamo")
def test_a_deep_copy_computes_with_the_old_weights_until_it_has_forwards_of_its_own(own: str) -> None:
    model = _model()
    regionally_compile(model, backend="eager")
    expected = _run(model)
    copied = copy.deepcopy(model)
    for weights in copied.blocks.parameters():
        torch.nn.init.zeros_(weights)

    torch.testing.assert_close(_run(copied), expected, rtol=0, atol=0)
    assert (restore_eager(copied) if own == "restored" else regionally_compile(copied, backend="eager")) == 5
    assert not _run(copied).any()
    torch.testing.assert_close(_run(model), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_compiled_model_cannot_be_pickled_and_a_restored_one_can() -> None:
    model = _model()
    regionally_compile(model, backend="eager")

    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(model)
    restore_eager(model)
    assert pickle.dumps(model)


# Options


@pytest.mark.parametrize("backend", [{}, {"backend": None}, {"backend": "inductor"}], ids=["default", "None", "named"])
def test_the_models_options_lie_under_the_callers_for_inductor(calls: Calls, backend: dict[str, Any]) -> None:
    model = _model()
    model._regional_compile_inductor_options = {"epilogue_fusion": False, "max_autotune": False}
    given = {"max_autotune": True}

    regionally_compile(model, options=given, dynamic=True, **backend)
    merged = {"epilogue_fusion": False, "max_autotune": True}
    assert calls.kwargs == [{"dynamic": True, "options": merged, **backend}] * 5
    assert given == {"max_autotune": True}
    assert model._regional_compile_inductor_options == {"epilogue_fusion": False, "max_autotune": False}


def test_the_models_options_are_not_for_other_backends(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(Block())
    model._regional_compile_inductor_options = {"max_autotune": True}

    regionally_compile(model, backend="eager")
    regionally_compile(model, backend="eager", options={"any": 1}, mode="default")
    monkeypatch.setattr(torch.compiler, "get_default_backend", lambda: "eager", raising=False)
    regionally_compile(model)
    assert calls.kwargs == [{"backend": "eager"}, {"backend": "eager", "options": {"any": 1}}, {}]


@pytest.mark.usefixtures("fresh_dynamo")
def test_every_block_gets_the_options_that_torch_compile_takes_out() -> None:
    model = _model()
    filtered: list[int] = []

    def keep(guards: list[Any]) -> list[bool]:
        filtered.append(len(guards))
        return [True] * len(guards)

    options = {"guard_filter_fn": keep}
    regionally_compile(model, backend="eager", options=options)
    _run(model)
    assert options == {"guard_filter_fn": keep}
    assert len(filtered) == 2


def test_a_mode_without_options_is_handed_on(calls: Calls) -> None:
    model = Model(Block())
    model._regional_compile_inductor_options = {}

    regionally_compile(model, mode="reduce-overhead")
    regionally_compile(model, mode="reduce-overhead", options=None)
    assert calls.kwargs == [{"mode": "reduce-overhead"}] * 2


def test_the_default_mode_goes_with_options(calls: Calls) -> None:
    regionally_compile(Model(Block()), mode="default", options={"max_autotune": True})
    assert calls.kwargs == [{"options": {"max_autotune": True}}]


@pytest.mark.parametrize("where", ["caller", "model"])
def test_a_mode_and_options_are_refused(calls: Calls, where: str) -> None:
    model = _model()
    options = {"max_autotune": True}
    model._regional_compile_inductor_options = options if where == "model" else None

    with pytest.raises(ValueError, match="mode or options, not both"):
        regionally_compile(model, mode="reduce-overhead", **({"options": options} if where == "caller" else {}))
    assert not _changed(model)


@pytest.mark.parametrize("where", ["caller", "model"])
def test_options_that_are_no_dict_are_refused(calls: Calls, where: str) -> None:
    model = _model()
    model._regional_compile_inductor_options = ["max_autotune"] if where == "model" else None

    with pytest.raises(TypeError, match=r"options must be a dict or None, not \['max_autotune'\]"):
        regionally_compile(model, **({"options": ["max_autotune"]} if where == "caller" else {}))
    assert not _changed(model)


# What is said


@pytest.mark.parametrize("declared", [None, [], ()], ids=repr)
def test_a_model_that_declares_no_blocks_is_warned_of_or_refused(
    caplog: pytest.LogCaptureFixture, calls: Calls, declared: object
) -> None:
    sentence = "Regional compilation skipped because the model does not define `_repeated_blocks`."
    model = _model()
    model._repeated_blocks = declared

    assert regionally_compile(model) == 0
    assert caplog.record_tuples == [("models.regional", logging.WARNING, sentence)]
    with pytest.raises(ValueError, match=r"^Regional compilation skipped because the model does not define") as caught:
        regionally_compile(model, strict=True)
    assert str(caught.value) == sentence
    assert calls.kwargs == []


def test_a_model_without_the_attribute_is_warned_of(caplog: pytest.LogCaptureFixture, calls: Calls) -> None:
    assert regionally_compile(torch.nn.Linear(4, 4)) == 0
    assert "does not define `_repeated_blocks`" in caplog.text


def test_blocks_that_are_not_found_are_warned_of_or_refused(caplog: pytest.LogCaptureFixture, calls: Calls) -> None:
    sentence = "Regional compilation skipped because ['Absent', 'Gone'] classes are not found in the model."
    model = _model()
    model._repeated_blocks = ["Absent", "Gone"]

    assert regionally_compile(model) == 0
    assert caplog.record_tuples == [("models.regional", logging.WARNING, sentence)]
    with pytest.raises(ValueError, match="classes are not found in the model") as caught:
        regionally_compile(model, strict=True)
    assert str(caught.value) == sentence


def test_what_was_compiled_is_logged(caplog: pytest.LogCaptureFixture, calls: Calls) -> None:
    caplog.set_level(logging.INFO, logger="models.regional")
    regionally_compile(_model(), strict=True)

    sentence = "Regional compilation applied to 5 module(s) for repeated blocks ['Block', 'Single']."
    assert caplog.record_tuples == [("models.regional", logging.INFO, sentence)]
