"""Options of the model lie under the caller's, reach every block, and are refused where they cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.regional import regionally_compile

from .making import Block, Calls, Model, build, changed, run


@pytest.mark.parametrize("backend", [{}, {"backend": None}, {"backend": "inductor"}], ids=["default", "None", "named"])
def test_the_models_options_lie_under_the_callers_for_inductor(calls: Calls, backend: dict[str, Any]) -> None:
    model = build()
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
    model = build()
    filtered: list[int] = []

    def keep(guards: list[Any]) -> list[bool]:
        filtered.append(len(guards))
        return [True] * len(guards)

    options = {"guard_filter_fn": keep}
    regionally_compile(model, backend="eager", options=options)
    run(model)
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
    model = build()
    options = {"max_autotune": True}
    model._regional_compile_inductor_options = options if where == "model" else None

    with pytest.raises(ValueError, match="mode or options, not both"):
        regionally_compile(model, mode="reduce-overhead", **({"options": options} if where == "caller" else {}))
    assert not changed(model)


@pytest.mark.parametrize("where", ["caller", "model"])
def test_options_that_are_no_dict_are_refused(calls: Calls, where: str) -> None:
    model = build()
    model._regional_compile_inductor_options = ["max_autotune"] if where == "model" else None

    with pytest.raises(TypeError, match=r"options must be a dict or None, not \['max_autotune'\]"):
        regionally_compile(model, **({"options": ["max_autotune"]} if where == "caller" else {}))
    assert not changed(model)


def test_options_that_inductor_does_not_know_change_nothing() -> None:
    model = build()

    with pytest.raises(RuntimeError, match="no_such_option"):
        regionally_compile(model, options={"no_such_option": 1})
    assert not changed(model)
