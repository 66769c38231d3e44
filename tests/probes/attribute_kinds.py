"""Probes of the attribute and ambient families."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .probe import probe

if TYPE_CHECKING:
    from collections.abc import Iterator


class Layer(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, image: Tensor) -> Tensor:
        return image * (self.index + 1)


@probe("module_attr_int", "self.index")
def layer_of_another_index(*, cured: bool) -> None:
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=cured):
        for index in (2, 3):
            torch.compile(Layer(index), backend="eager", dynamic=True)(torch.ones(4))


class Scale(nn.Module):
    def __init__(self, factor: float | tuple[int, ...]) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, image: Tensor) -> Tensor:
        return image * (self.factor if isinstance(self.factor, float) else self.factor[0])


@probe("module_attr", "self.factor")
def layer_of_another_float(*, cured: bool) -> None:
    for factor in (1.5, 1.5 if cured else 2.5):
        torch.compile(Scale(factor), backend="eager")(torch.ones(4))


@probe("module_attr", "self.factor")
def layer_of_another_tuple(*, cured: bool) -> None:
    for factor in (1, 1 if cured else 3):
        torch.compile(Scale((factor, 5)), backend="eager")(torch.ones(4))


class Noisy(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image + 1 if self.training else image - 1


@probe("module_training", "self.training", expected=True)
def eval_after_training(*, cured: bool) -> None:
    model = Noisy()
    compiled = torch.compile(model, backend="eager")
    for training in (not cured, False):
        model.train(training)
        compiled(torch.ones(4))


class Optional(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image * self.extra if hasattr(self, "extra") else image * 3


@probe("attr_added", "self.extra")
def attribute_is_set_between_the_calls(*, cured: bool) -> None:
    model = Optional()
    compiled = torch.compile(model, backend="eager")
    if cured:
        model.extra = 2.5
    compiled(torch.ones(4))
    model.extra = 2.5
    compiled(torch.ones(4))


class Dual(nn.Module):
    def __init__(self, second: nn.Module | None) -> None:
        super().__init__()
        self.second = second

    def forward(self, image: Tensor) -> Tensor:
        return image.sin() if self.second is None else self.second(image)


@probe("none_vs_value", "self.second", expected=True)
def layer_has_no_second_part(*, cured: bool) -> None:
    parts = (nn.Tanh(), nn.Tanh() if cured else None)
    for layer in [Dual(part).eval() for part in parts]:
        layer.compile(backend="eager")
        layer(torch.ones(4))


@probe("none_vs_value", "self.second", expected=True)
def layer_has_a_second_part_at_last(*, cured: bool) -> None:
    parts = (nn.Tanh() if cured else None, nn.Tanh())
    for layer in [Dual(part).eval() for part in parts]:
        layer.compile(backend="eager")
        layer(torch.ones(4))


class Scaled(nn.Module):
    def __init__(self, scale: nn.Parameter | None) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, image: Tensor) -> Tensor:
        return image.sin() if self.scale is None else image * self.scale


@probe("none_vs_value", "self.scale", expected=True)
def layer_has_no_scale(*, cured: bool) -> None:
    for scale in (nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4)) if cured else None):
        layer = Scaled(scale).requires_grad_(requires_grad=False).eval()
        layer.compile(backend="eager")
        layer(torch.ones(4))


class Config:
    def __init__(self) -> None:
        self.steps = 2
        self.mode = "sine"


def configured(image: Tensor, config: Config) -> Tensor:
    return image.sin() * config.steps if config.mode == "sine" else image.cos()


@probe("attr_changed", "config.steps")
def number_in_a_config_moves(*, cured: bool) -> None:
    config = Config()
    compiled = torch.compile(configured, backend="eager")
    for steps in (2, 2 if cured else 3):
        config.steps = steps
        compiled(torch.ones(4), config)


@probe("attr_str", "config.mode", expected=True)
def string_in_a_config_moves(*, cured: bool) -> None:
    config = Config()
    compiled = torch.compile(configured, backend="eager")
    for mode in ("sine", "sine" if cured else "cosine"):
        config.mode = mode
        compiled(torch.ones(4), config)


class Activated(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.activation = name

    def forward(self, image: Tensor) -> Tensor:
        return image.sin() if self.activation == "sine" else image.cos()


@probe("attr_str", "self.activation", expected=True)
def layer_of_another_string(*, cured: bool) -> None:
    for name in ("sine", "sine" if cured else "cosine"):
        torch.compile(Activated(name), backend="eager")(torch.ones(4))


SCHEDULE = {"step": 0}
STEP = 0


def scheduled(image: Tensor) -> Tensor:
    return image * (STEP + 2)


def scheduled_by_argument(image: Tensor, step: int) -> Tensor:
    return image * (step + 2)


@probe("global", "G['STEP']")
def global_moves(*, cured: bool) -> None:
    global STEP
    compiled = torch.compile(scheduled, backend="eager", dynamic=True)
    passed = torch.compile(scheduled_by_argument, backend="eager", dynamic=True)
    for STEP in (3, 4):
        if cured:
            passed(torch.ones(4), STEP)
        else:
            compiled(torch.ones(4))


def doubled(image: Tensor) -> Tensor:
    return image * 2


@probe("global_state", "grad_mode")
def gradients_on(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for enabled in (cured, True):
        with torch.set_grad_enabled(enabled):
            compiled(torch.ones(4))


@probe("global_state", "autocast_state")
def autocast(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for enabled in (cured, True):
        with torch.autocast("cpu", enabled=enabled):
            compiled(torch.ones(4))


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@probe("global_state", "default_dtype")
def another_default_dtype(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    image = torch.ones(4)
    for dtype in (torch.float32, torch.float32 if cured else torch.float64):
        with default_dtype(dtype):
            compiled(image)


@probe("global_state", "deterministic_algorithms")
def deterministic_algorithms(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for wanted in (cured, True):
        torch.use_deterministic_algorithms(wanted)
        try:
            compiled(torch.ones(4))
        finally:
            torch.use_deterministic_algorithms(mode=False)


@probe("global_state", "num_threads")
def another_number_of_threads(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    before = torch.get_num_threads()
    for threads in (1, 1 if cured else 2):
        torch.set_num_threads(threads)
        compiled(torch.ones(4))
    torch.set_num_threads(before)


@probe("global_state", "inference_mode")
def call_under_inference_mode(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    image = torch.ones(4)
    for inference in (cured, True):
        with torch.inference_mode(inference), torch.no_grad():
            compiled(image)


class Watched(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@probe("torch_function_mode", "torch-function modes")
def function_mode_around_the_second_call(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for active in (cured, True):
        with Watched() if active else contextlib.nullcontext():
            compiled(torch.ones(4))


@probe("default_device", "default device")
def another_default_device(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    image = torch.ones(4)
    for device in (None, None if cured else "cpu"):
        torch.set_default_device(device)
        try:
            compiled(image)
        finally:
            torch.set_default_device(None)


@probe("backend", "backend")
def another_backend(*, cured: bool) -> None:
    for backend in ("eager", "eager" if cured else "aot_eager"):
        torch.compile(doubled, backend=backend)(torch.ones(4))


@probe("invalidated", "cache entry")
def class_that_was_guarded_is_freed(*, cured: bool) -> None:
    compiled = torch.compile(configured, backend="eager")
    kept = local_config()
    for _ in range(2):
        cls = kept if cured else local_config()
        compiled(torch.ones(4), cls())
        freed = weakref.ref(cls)
        del cls
        gc.collect()
        if not cured and freed() is not None:
            pytest.skip("here something else keeps the class alive, so Dynamo throws no entry away")


def local_config() -> type[Config]:
    class LocalConfig(Config):
        pass

    return LocalConfig
