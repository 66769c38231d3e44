"""Trials of the sentences about attributes, process state and what stands around a call."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .trial import calls, cures, wrong

if TYPE_CHECKING:
    from collections.abc import Callable


def doubled(image: Tensor) -> Tensor:
    return image * 2


class Noisy(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image + 1 if self.training else image - 1


def in_modes(modes: tuple[bool, ...], sizes: tuple[int, ...]) -> object:
    model = Noisy()
    compiled = torch.compile(model, backend="eager")
    out = []
    for training, size in zip(modes, sizes, strict=True):
        model.train(training)
        out.append(compiled(torch.ones(size)))
    return out


@cures("module_training")
def eval_after_training(*, followed: bool) -> object:
    return in_modes((not followed, False), (4, 4))


@wrong("module_training")
def eval_throughout_and_a_growing_image(*, followed: bool) -> object:
    return in_modes((not followed, not followed), (4, 6))


class Optional(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image * self.extra if hasattr(self, "extra") else image * 3


@cures("attr_added")
def attribute_is_set_between_the_calls(*, followed: bool) -> object:
    model = Optional()
    compiled = torch.compile(model, backend="eager")
    if followed:
        model.extra = 2.5
    first = compiled(torch.ones(4))
    model.extra = 2.5
    return first, compiled(torch.ones(4))


@wrong("attr_added")
def attribute_is_there_and_the_image_grows(*, followed: bool) -> object:
    model = Optional()
    if followed:
        model.extra = 2.5
    return calls(model, [(torch.ones(size),) for size in (4, 6)])


def under(contexts: tuple[Callable[[], Any], ...], sizes: tuple[int, ...] = (4, 4)) -> object:
    compiled = torch.compile(doubled, backend="eager")
    out = []
    for context, size in zip(contexts, sizes, strict=True):
        image = torch.ones(size)
        with context():
            out.append(compiled(image))
    return out


@cures("global_state")
def gradients_on(*, followed: bool) -> object:
    return under((torch.enable_grad if followed else torch.no_grad, torch.enable_grad))


@cures("global_state")
def autocast(*, followed: bool) -> object:
    on = lambda: torch.autocast("cpu")  # noqa: E731 (a context to enter twice)
    return under((on if followed else contextlib.nullcontext, on))


@wrong("global_state")
def gradients_off_and_a_growing_image(*, followed: bool) -> object:
    context = torch.no_grad if followed else contextlib.nullcontext
    return under((context, context), (4, 6))


class Watched(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@cures("torch_function_mode")
def function_mode_around_the_second_call(*, followed: bool) -> object:
    return under((Watched if followed else contextlib.nullcontext, Watched))


@wrong("torch_function_mode")
def function_mode_around_growing_images(*, followed: bool) -> object:
    context = Watched if followed else contextlib.nullcontext
    return under((context, context), (4, 6))


@contextlib.contextmanager
def default_device(device: str | None) -> Any:
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@cures("default_device")
def another_default_device(*, followed: bool) -> object:
    return under((lambda: default_device("cpu" if followed else None), lambda: default_device("cpu")))


@wrong("default_device")
def one_default_device_and_growing_images(*, followed: bool) -> object:
    context = lambda: default_device("cpu" if followed else None)  # noqa: E731 (a context to enter twice)
    return under((context, context), (4, 6))


@cures("backend")
def another_backend(*, followed: bool) -> object:
    backends = ("eager", "eager" if followed else "aot_eager")
    return [torch.compile(doubled, backend=backend)(torch.ones(4)) for backend in backends]


@wrong("backend")
def one_backend_and_growing_images(*, followed: bool) -> object:
    backend = "aot_eager" if followed else "eager"
    return calls(doubled, [(torch.ones(size),) for size in (4, 6)], backend=backend)


class Config:
    def __init__(self) -> None:
        self.factor = 2.5


def configured(image: Tensor, config: Config) -> Tensor:
    return image * config.factor


def local_config() -> type[Config]:
    class LocalConfig(Config):
        pass

    return LocalConfig


def with_classes(classes: tuple[type[Config] | None, ...], sizes: tuple[int, ...]) -> object:
    compiled = torch.compile(configured, backend="eager")
    out = []
    for cls, size in zip(classes, sizes, strict=True):
        made = local_config() if cls is None else cls
        out.append(compiled(torch.ones(size), made()))
        del made
        gc.collect()
    return out


@cures("invalidated", since=(2, 13))
def class_that_was_guarded_is_freed(*, followed: bool) -> object:
    kept = local_config() if followed else None
    return with_classes((kept, kept), (4, 4))


@wrong("invalidated")
def class_is_kept_and_the_image_grows(*, followed: bool) -> object:
    kept = local_config() if followed else Config
    return with_classes((kept, kept), (4, 6))
