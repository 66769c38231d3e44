"""Trials of the sentences about Python values: numbers, flags, strings, None."""

from __future__ import annotations

import contextlib
import enum
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .trial import calls, cures, wrong

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE = torch.ones(8)


def scaled(image: Tensor, factor: float) -> Tensor:
    return image * factor


def strong_or_weak(image: Tensor, factor: float) -> Tensor:
    return image * 2 if factor > 3 else image * 3


def repeated(image: Tensor, times: int) -> Tensor:
    total = image
    for _ in range(times):
        total = total + image
    return total


def handed_on(image: Tensor, factor: float) -> Tensor:
    return torch.mul(image, factor)


def given(function: Callable[..., Tensor], values: tuple[object, ...], **settings: object) -> object:
    return calls(function, [(IMAGE, value) for value in values], **settings)


def as_tensors(*values: float) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(value) for value in values)


@cures("number")
def another_int(*, followed: bool) -> object:
    return given(scaled, (2, 3, 1, 0), dynamic=True if followed else None)


@cures("number")
def another_float(*, followed: bool) -> object:
    return given(scaled, (2.5, 1.0, 0.0), dynamic=True if followed else None)


@cures("number")
def another_int_as_a_tensor(*, followed: bool) -> object:
    return given(scaled, as_tensors(2, 3, 1) if followed else (2, 3, 1))


@cures("number")
def number_of_a_closure(*, followed: bool) -> object:
    def scaler(factor: float) -> Callable[[Tensor], Tensor]:
        def scale(image: Tensor) -> Tensor:
            return image * factor

        return scale

    dynamic = True if followed else None
    return [torch.compile(scaler(n), backend="eager", dynamic=dynamic)(IMAGE) for n in (2, 3)]


class Config:
    def __init__(self, factor: float) -> None:
        self.factor = factor


@cures("number")
def number_of_an_object(*, followed: bool) -> object:
    def configured(image: Tensor, config: Config) -> Tensor:
        return image * config.factor

    inputs = [(IMAGE, Config(factor)) for factor in (2.5, 3.5)]
    return calls(configured, inputs, dynamic=True if followed else None)


class Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, image: Tensor) -> Tensor:
        return image * self.factor


def each(layers: list[nn.Module], **settings: object) -> object:
    return [torch.compile(layer, backend="eager", **settings)(IMAGE) for layer in layers]


@cures("number")
def float_of_a_module(*, followed: bool) -> object:
    return each([Scale(2.5), Scale(3.5), Scale(1.0)], dynamic=True if followed else None)


@wrong("number")
@wrong("number_unread")
def number_is_branched_on_and_a_tensor(*, followed: bool) -> object:
    return given(strong_or_weak, as_tensors(2, 5, 6) if followed else (2, 5, 6))


@wrong("number")
@wrong("number_branched")
@wrong("number_as_tensor")
@wrong("side_expected")
def number_is_the_length_of_a_loop(*, followed: bool) -> object:
    return given(repeated, (2, 3), dynamic=True if followed else None)


@cures("number_unread")
def number_is_handed_on(*, followed: bool) -> object:
    return given(handed_on, (2, 3, 5), dynamic=True if followed else None)


@cures("number_unread")
def number_is_handed_on_as_a_tensor(*, followed: bool) -> object:
    return given(handed_on, as_tensors(2, 3, 5) if followed else (2, 3, 5))


@cures("number_as_tensor")
def float_is_specialised(*, followed: bool) -> object:
    with torch._dynamo.config.patch(specialize_float=True):
        return given(scaled, as_tensors(2.5, 3.5) if followed else (2.5, 3.5), dynamic=True)


@cures("constant_or_tensor")
def handed_on_float_is_specialised(*, followed: bool) -> object:
    with torch._dynamo.config.patch(specialize_float=True):
        return given(handed_on, as_tensors(2.5, 3.5) if followed else (2.5, 3.5), dynamic=True)


@wrong("constant_or_tensor")
def float_is_branched_on_and_specialised(*, followed: bool) -> object:
    with torch._dynamo.config.patch(specialize_float=True):
        return given(strong_or_weak, as_tensors(2.5, 3.5) if followed else (2.5, 3.5), dynamic=True)


@cures("number_branched")
def number_is_branched_on(*, followed: bool) -> object:
    return given(strong_or_weak, (5, 6, 7) if followed else (2, 6, 7), dynamic=True if followed else None)


@cures("side_expected")
def number_is_branched_on_under_dynamic_true(*, followed: bool) -> object:
    with torch._dynamo.config.patch(specialize_float=True):
        return given(strong_or_weak, (5.5, 5.5) if followed else (2.5, 5.5), dynamic=True)


@cures("constant_expected")
def number_is_a_loop_under_dynamic_true(*, followed: bool) -> object:
    return given(repeated, (3, 3) if followed else (2, 3), dynamic=True)


@wrong("constant_expected")
@wrong("bool_expected")
def number_is_calculated_with_and_constant(*, followed: bool) -> object:
    """Where dynamic=True would have helped, one graph for each value is nothing to expect."""
    values = (2, 3) if followed else (2, 4)
    return given(scaled, values)


def number_is_last(image: Tensor, step: int) -> Tensor:
    last = halved(step) == 2
    return image.sin() if last else image.cos()


def halved(step: int) -> int:
    return step // 1


@cures("number_compared")
def number_is_compared_after_a_call(*, followed: bool) -> object:
    return given(number_is_last, (2, 2) if followed else (2, 3), dynamic=True)


@wrong("number_compared")
def number_is_compared_nowhere(*, followed: bool) -> object:
    return given(scaled, (2.5, 2) if followed else (2.5, 3), dynamic=True)


@cures("number_type")
def int_then_float(*, followed: bool) -> object:
    return given(scaled, (2.0, 3.5) if followed else (2, 3.5), dynamic=True)


@wrong("number_type")
def float_then_tensor(*, followed: bool) -> object:
    return given(scaled, (float(3), torch.tensor(2.0)) if followed else (3, torch.tensor(2.0)), dynamic=True)


def switched(image: Tensor, fast: bool) -> Tensor:  # noqa: FBT001 (that is the point)
    return image.sin() if fast else image.cos()


@cures("bool_expected")
def flag_flips(*, followed: bool) -> object:
    return given(switched, (True, followed))


@wrong("bool_expected")
def flag_is_always_true_and_the_image_grows(*, followed: bool) -> object:
    fast = True
    return calls(switched, [(torch.ones(size), fast or followed) for size in (4, 6)])


def named(image: Tensor, mode: str) -> Tensor:
    return image.sin() if mode == "sine" else image.cos()


@cures("string_expected")
def another_string(*, followed: bool) -> object:
    return given(named, ("sine", "sine" if followed else "cosine"))


class Activated(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.activation = name

    def forward(self, image: Tensor) -> Tensor:
        return image.sin() if self.activation == "sine" else image.cos()


@cures("string_expected")
def string_of_a_layer(*, followed: bool) -> object:
    return each([Activated("sine"), Activated("sine" if followed else "cosine")])


@wrong("string_expected")
@wrong("value_expected")
def value_is_constant_and_the_image_grows(*, followed: bool) -> object:
    return calls(named, [(torch.ones(size), "sine" if followed else "cosine") for size in (4, 6)])


class Mode(enum.Enum):
    SINE = 1
    COSINE = 2


@cures("value_expected")
def another_member_of_an_enum(*, followed: bool) -> object:
    def by_mode(image: Tensor, mode: Mode) -> Tensor:
        return image.sin() if mode is Mode.SINE else image.cos()

    return given(by_mode, (Mode.SINE, Mode.SINE if followed else Mode.COSINE))


def masked(image: Tensor, mask: Tensor | None) -> Tensor:
    return image * 2 if mask is None else image * mask


@cures("optional_argument")
def mask_is_missing_first(*, followed: bool) -> object:
    return given(masked, (torch.ones(8) if followed else None, torch.zeros(8)))


@wrong("optional_argument")
def mask_is_given_and_the_image_grows(*, followed: bool) -> object:
    sizes = (4, 6)
    return calls(masked, [(torch.ones(size), torch.ones(size) if followed else None) for size in sizes])


class Dual(nn.Module):
    def __init__(self, second: nn.Module | None) -> None:
        super().__init__()
        self.second = second

    def forward(self, image: Tensor) -> Tensor:
        return image.sin() if self.second is None else self.second(image)


@cures("optional_part")
def layer_has_no_second_part(*, followed: bool) -> object:
    return each([Dual(nn.Tanh()).eval(), Dual(nn.Tanh() if followed else None).eval()])


@wrong("optional_part")
def every_layer_has_a_second_part(*, followed: bool) -> object:
    layers = [Dual(nn.Tanh() if followed else None).eval() for _ in range(2)]
    sizes = (4, 6)
    return [torch.compile(part, backend="eager")(torch.ones(n)) for part, n in zip(layers, sizes, strict=True)]


def stepped(*, tensor: bool, moving: bool) -> object:
    layer = nn.Linear(3, 3)
    rate = torch.tensor(0.1) if tensor else 0.1
    optimizer = torch.optim.AdamW(layer.parameters(), lr=rate)
    step = torch.compile(optimizer.step, backend="eager")
    grown: list[Tensor] = []
    for number in range(3):
        layer.zero_grad()
        layer(torch.ones(2, 3)).sum().backward()
        step()
        if moving:
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * 0.5
        elif number == 0:
            optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))]})
        grown.append(layer.weight.detach().clone())
    return grown


@cures("learning_rate")
def scheduler_moves_the_learning_rate(*, followed: bool) -> object:
    return stepped(tensor=followed, moving=True)


@wrong("learning_rate")
def optimizer_gets_another_group(*, followed: bool) -> object:
    return stepped(tensor=followed, moving=False)


class Layer(nn.Module):
    def __init__(self, index: int, use: str, *, as_buffer: bool = False) -> None:
        super().__init__()
        self.use = use
        if as_buffer:
            self.register_buffer("index", torch.tensor(index))
        else:
            self.index = index

    def forward(self, image: Tensor) -> Tensor:
        return image * (self.index + 1)


class Branching(Layer):
    def forward(self, image: Tensor) -> Tensor:
        if self.index % 2:
            return image * 2
        return image * 3


class Looping(Layer):
    def forward(self, image: Tensor) -> Tensor:
        total = image
        for _ in range(self.index):
            total = total + image
        return total


class HandingOn(Layer):
    def forward(self, image: Tensor) -> Tensor:
        return torch.add(image, self.index)


def layers_of(
    cls: type[Layer], indices: tuple[int, ...], *, unspecialised: bool, dynamic: bool, as_buffer: bool = False
) -> object:
    freed = (
        torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True) if unspecialised else contextlib.nullcontext()
    )
    with freed:
        return each([cls(i, "", as_buffer=as_buffer) for i in indices], dynamic=True if dynamic else None)


@cures("module_int")
def layer_index(*, followed: bool) -> object:
    return layers_of(Layer, (0, 1, 2, 5), unspecialised=followed, dynamic=followed)


@cures("module_int")
def layer_index_in_a_buffer(*, followed: bool) -> object:
    return layers_of(Layer, (0, 1, 2, 5), unspecialised=False, dynamic=False, as_buffer=followed)


@cures("number")
def layer_index_where_the_setting_is_on(*, followed: bool) -> object:
    return layers_of(Layer, (0, 1, 2, 5), unspecialised=True, dynamic=followed)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, image: Tensor) -> Tensor:
        self.calls += 1
        return image * self.calls


@cures("module_int")
def counter(*, followed: bool) -> object:
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=followed):
        return calls(Counting(), [(IMAGE,)] * 5, dynamic=True if followed else None)


@wrong("module_int")
@wrong("module_int_unread")
def layer_index_is_branched_on_and_a_buffer(*, followed: bool) -> object:
    return layers_of(Branching, (1, 3, 2), unspecialised=False, dynamic=False, as_buffer=followed)


@wrong("module_int_branched")
def layer_index_is_a_loop(*, followed: bool) -> object:
    return layers_of(Looping, (1, 3), unspecialised=followed, dynamic=followed)


@cures("constant_expected")
def layer_index_is_a_loop_and_one_value(*, followed: bool) -> object:
    return layers_of(Looping, (3, 3) if followed else (1, 3), unspecialised=False, dynamic=False)


@cures("module_int_branched")
def layer_index_is_branched_on(*, followed: bool) -> object:
    indices = (3, 5, 7) if followed else (3, 5, 6)
    return layers_of(Branching, indices, unspecialised=followed, dynamic=followed)


@cures("module_int_unread")
def layer_index_is_handed_on(*, followed: bool) -> object:
    return layers_of(HandingOn, (2, 3, 5), unspecialised=followed, dynamic=followed)


STEP = 0


def scheduled(image: Tensor) -> Tensor:
    return image * (STEP + 2)


def scheduled_by_argument(image: Tensor, step: int) -> Tensor:
    return image * (step + 2)


@cures("global_number")
def global_int_moves(*, followed: bool) -> object:
    global STEP  # noqa: PLW0603 (that is the point)
    if followed:
        return given(scheduled_by_argument, (3, 4, 5), dynamic=True)
    compiled = torch.compile(scheduled, backend="eager", dynamic=True)
    out = []
    for step in (3, 4, 5):
        STEP = step
        out.append(compiled(IMAGE))
    return out


MODE = 0


def moded(image: Tensor) -> Tensor:
    return image.sin() if MODE == 0 else image.cos()


def moded_by_argument(image: Tensor, mode: int) -> Tensor:
    return image * 2 if mode == 0 else image * 3


@cures("global_branched")
def global_int_is_branched_on(*, followed: bool) -> object:
    global MODE  # noqa: PLW0603 (that is the point)
    if followed:
        return given(moded_by_argument, (3, 4, 5), dynamic=True)
    compiled = torch.compile(moded, backend="eager", dynamic=True)
    out = []
    for mode in (3, 4, 5):
        MODE = mode
        out.append(compiled(IMAGE))
    return out


@wrong("global_branched")
def global_int_is_the_same_and_the_image_grows(*, followed: bool) -> object:
    images = [torch.ones(size) for size in (4, 6)]
    if followed:
        return calls(moded_by_argument, [(image, 3) for image in images])
    return calls(moded, [(image,) for image in images])


@wrong("global_number")
def global_int_is_branched_on_and_a_tensor(*, followed: bool) -> object:
    global MODE  # noqa: PLW0603 (that is the point)
    compiled = torch.compile(moded, backend="eager")
    out = []
    for value in (0, 3):
        MODE = torch.tensor(value) if followed else value
        out.append(compiled(IMAGE))
    return out
