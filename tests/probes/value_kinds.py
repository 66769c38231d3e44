"""Probes of the value, container and object families."""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .probe import probe

if TYPE_CHECKING:
    from collections.abc import Callable


def times(image: Tensor, factor: float) -> Tensor:
    return image * factor


@probe("python_int", "factor")
def another_int(*, cured: bool) -> None:
    compiled = torch.compile(times, backend="eager", dynamic=cured)
    for factor in (2, 3):
        compiled(torch.ones(4), factor)


@probe("python_float", "factor")
def another_float(*, cured: bool) -> None:
    compiled = torch.compile(times, backend="eager", dynamic=False)
    for factor in (2.5, 3.5):
        compiled(torch.ones(4), torch.tensor(factor) if cured else factor)


def switched(image: Tensor, fast: bool) -> Tensor:  # noqa: FBT001 (that is the point)
    return image.sin() if fast else image.cos()


@probe("python_float", "factor")
def not_a_number(*, cured: bool) -> None:
    compiled = torch.compile(times, backend="eager", dynamic=False)
    for factor in (float("nan"), 3.5):
        compiled(torch.ones(4), torch.tensor(factor) if cured else factor)


@probe("python_bool", "fast", expected=True)
def flag_flips(*, cured: bool) -> None:
    compiled = torch.compile(switched, backend="eager")
    for fast in (True, cured):
        compiled(torch.ones(4), fast)


def named(image: Tensor, mode: str) -> Tensor:
    return image.sin() if mode == "sine" else image.cos()


@probe("python_str", "mode", expected=True)
def another_string(*, cured: bool) -> None:
    compiled = torch.compile(named, backend="eager")
    for mode in ("sine", "sine" if cured else "cosine"):
        compiled(torch.ones(4), mode)


def masked(image: Tensor, mask: Tensor | None) -> Tensor:
    return image * 2 if mask is None else image * mask


@probe("none_vs_value", "mask")
def mask_is_missing_first(*, cured: bool) -> None:
    compiled = torch.compile(masked, backend="eager")
    for mask in (torch.ones(4) if cured else None, torch.zeros(4)):
        compiled(torch.ones(4), mask)


@probe("none_vs_value", "mask")
def mask_is_missing_later(*, cured: bool) -> None:
    compiled = torch.compile(masked, backend="eager")
    for mask in (torch.zeros(4), torch.ones(4) if cured else None):
        compiled(torch.ones(4), mask)


@probe("none_vs_value", "factor")
def float_is_missing_later(*, cured: bool) -> None:
    def maybe(image: Tensor, factor: float | None) -> Tensor:
        return image * 2 if factor is None else image * factor

    compiled = torch.compile(maybe, backend="eager")
    for factor in (2.5, 2.5 if cured else None):
        compiled(torch.ones(4), factor)


class Mode(enum.Enum):
    SINE = 1
    COSINE = 2


def by_mode(image: Tensor, mode: Mode) -> Tensor:
    return image.sin() if mode is Mode.SINE else image.cos()


@probe("python_value", "mode", expected=True)
def another_member_of_an_enum(*, cured: bool) -> None:
    compiled = torch.compile(by_mode, backend="eager")
    for mode in (Mode.SINE, Mode.SINE if cured else Mode.COSINE):
        compiled(torch.ones(4), mode)


def cast(image: Tensor, dtype: torch.dtype) -> Tensor:
    return image.to(dtype)


@probe("python_value", "dtype", expected=True)
def another_dtype_argument(*, cured: bool) -> None:
    compiled = torch.compile(cast, backend="eager")
    for dtype in (torch.float16, torch.float16 if cured else torch.float64):
        compiled(torch.ones(4), dtype)


def summed(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@probe("list_length", "parts")
def longer_list(*, cured: bool) -> None:
    compiled = torch.compile(summed, backend="eager")
    for count in (2, 3):
        parts = [torch.ones(4) for _ in range(count)]
        compiled([*parts, *(torch.zeros(4) for _ in range(3 - count))] if cured else parts)


@probe("list_length", "parts")
def longer_tuple(*, cured: bool) -> None:
    compiled = torch.compile(summed, backend="eager")
    for count in (2, 3):
        parts = tuple(torch.ones(4) for _ in range(count))
        compiled((*parts, *(torch.zeros(4) for _ in range(3 - count))) if cured else parts)


def optional_text(inputs: dict[str, Tensor]) -> Tensor:
    return inputs["image"] + inputs["text"] if "text" in inputs else inputs["image"] * 2


@probe("dict_keys", "inputs")
def key_comes_along(*, cured: bool) -> None:
    compiled = torch.compile(optional_text, backend="eager")
    first = {"image": torch.ones(4), "size": torch.ones(4)}
    compiled(first | {"text": torch.zeros(4)} if cured else first)
    compiled({"image": torch.ones(4), "size": torch.ones(4), "text": torch.zeros(4)})


def folded(inputs: dict[str, Tensor]) -> Tensor:
    total = torch.zeros(4)
    for name, value in inputs.items():
        total = total * 2 + value * len(name)
    return total


@probe("dict_keys", "inputs")
def another_key_of_an_iterated_dict(*, cured: bool) -> None:
    compiled = torch.compile(folded, backend="eager")
    image, text = torch.ones(4), torch.zeros(4)
    compiled({"image": image, "text": text})
    compiled({"image": image, "text" if cured else "mask": text})


@probe("python_value", "names")
def another_member_of_a_set(*, cured: bool) -> None:
    def chosen(image: Tensor, names: set[str]) -> Tensor:
        return image.sin() if "sine" in names else image.cos()

    compiled = torch.compile(chosen, backend="eager")
    for names in ({"sine"}, {"sine"} if cured else {"cosine"}):
        compiled(torch.ones(4), names)


@probe("dict_order", "inputs")
def another_order(*, cured: bool) -> None:
    compiled = torch.compile(folded, backend="eager")
    image, text = torch.ones(4), torch.zeros(4)
    compiled({"image": image, "text": text})
    compiled({"image": image, "text": text} if cured else {"text": text, "image": image})


@probe("dict_keys", "inputs")
def another_number_of_keys(*, cured: bool) -> None:
    compiled = torch.compile(folded, backend="eager")
    image, text = torch.ones(4), torch.zeros(4)
    compiled({"image": image, "text": text} if cured else {"image": image})
    compiled({"image": image, "text": text})


def all_folded(image: Tensor, extras: dict[str, Tensor]) -> Tensor:
    for name, value in extras.items():
        image = image * 2 + value * len(name)
    return image + 1


@probe("dict_keys", "extras")
def first_key_of_an_empty_dict(*, cured: bool) -> None:
    compiled = torch.compile(all_folded, backend="eager")
    extras = {"text": torch.zeros(4)}
    for given in (extras if cured else {}, extras):
        compiled(torch.ones(4), given)


class Block(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, image: Tensor) -> Tensor:
        return self.norm(image) * 2


@probe("module_type", "self.norm", expected=True)
def block_with_another_norm(*, cured: bool) -> None:
    for norm in (nn.LayerNorm(4), nn.LayerNorm(4) if cured else nn.RMSNorm(4)):
        torch.compile(Block(norm), backend="eager")(torch.ones(2, 4))


class Doubler:
    def apply(self, image: Tensor) -> Tensor:
        return image * 2


class Halver:
    def apply(self, image: Tensor) -> Tensor:
        return image / 2


def processed(image: Tensor, processor: Doubler | Halver) -> Tensor:
    return processor.apply(image)


@probe("type", "processor")
def another_class_of_processor(*, cured: bool) -> None:
    compiled = torch.compile(processed, backend="eager")
    for processor in (Doubler(), Doubler() if cured else Halver()):
        compiled(torch.ones(4), processor)


@probe("type", "inputs")
def another_class_of_dict(*, cured: bool) -> None:
    compiled = torch.compile(folded, backend="eager")
    for cls in (dict, dict if cured else OrderedDict):
        compiled(cls(image=torch.ones(4)))


@probe("type", "factor")
def int_then_float(*, cured: bool) -> None:
    compiled = torch.compile(times, backend="eager", dynamic=True)
    for factor in (2.5, 3.5 if cured else 3):
        compiled(torch.ones(4), factor)


def converted(image: Tensor, to: type) -> Tensor:
    return image * to(2.5)


@probe("object_id", "to")
def another_class_as_an_argument(*, cured: bool) -> None:
    compiled = torch.compile(converted, backend="eager")
    for to in (int, int if cured else float):
        compiled(torch.ones(4), to)


def added(left: Tensor, right: Tensor) -> Tensor:
    return left + right


@probe("object_id", "left, right")
def one_tensor_for_both_arguments_and_then_two(*, cured: bool) -> None:
    compiled = torch.compile(added, backend="eager")
    image = torch.ones(4)
    compiled(image, image)
    compiled(image, image if cured else torch.ones(4))


def added_in_place(left: Tensor, right: Tensor) -> Tensor:
    return left.add_(right)


@probe("object_id", "left, right")
def two_tensors_and_then_one_for_both(*, cured: bool) -> None:
    compiled = torch.compile(added_in_place, backend="eager")
    image = torch.ones(4)
    compiled(torch.ones(4), torch.ones(4))
    compiled(image, torch.ones(4) if cured else image)


def applied(image: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    return function(image)


@probe("function_id", "function")
def another_lambda(*, cured: bool) -> None:
    compiled = torch.compile(applied, backend="eager")
    shared = lambda image: image + 1  # noqa: E731 (that is the point)
    for own in (shared, lambda image: image + 2):
        compiled(torch.ones(4), shared if cured else own)


@probe("function_id", "function")
def another_builtin(*, cured: bool) -> None:
    compiled = torch.compile(applied, backend="eager")
    for own in (torch.sin, torch.sin if cured else torch.cos):
        compiled(torch.ones(4), own)


def scaler(factor: int) -> Callable[[Tensor], Tensor]:
    def scale(image: Tensor) -> Tensor:
        return image * factor

    return scale


@probe("closure", "factor", expected=True)
def closure_of_another_value(*, cured: bool) -> None:
    for factor in (2, 2 if cured else 3):
        torch.compile(scaler(factor), backend="eager")(torch.ones(4))


@probe("closure", "factor", expected=True)
def closure_as_an_argument(*, cured: bool) -> None:
    compiled = torch.compile(applied, backend="eager")
    for factor in (2, 2 if cured else 3):
        compiled(torch.ones(4), scaler(factor))
