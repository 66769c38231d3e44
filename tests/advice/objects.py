"""Trials of the sentences about containers, classes, objects and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .trial import calls, cures, wrong

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE = torch.ones(4)


def summed(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@cures("list_length")
def longer_list(*, followed: bool) -> object:
    lists = [[torch.ones(4) for _ in range(count)] for count in (2, 3)]
    if followed:
        lists = [parts + [torch.zeros(4)] * (3 - len(parts)) for parts in lists]
    return calls(summed, [(parts,) for parts in lists])


@wrong("list_length")
def padded_list_of_growing_images(*, followed: bool) -> object:
    lists = [[torch.ones(size)] * 2 + ([torch.zeros(size)] if followed else []) for size in (4, 6)]
    return calls(summed, [(parts,) for parts in lists])


def with_text(inputs: dict[str, Tensor]) -> Tensor:
    return inputs["image"] + inputs["text"] if "text" in inputs else inputs["image"] * 2


@cures("dict_key")
def key_comes_along(*, followed: bool) -> object:
    full = {"image": torch.ones(4), "text": torch.zeros(4)}
    return calls(with_text, [(full if followed else {"image": torch.ones(4)},), (full,)])


def summed_up(inputs: dict[str, Tensor]) -> Tensor:
    total = torch.zeros(4)
    for value in inputs.values():
        total = total + value
    return total


@cures("dict_keys")
def every_key_is_read(*, followed: bool) -> object:
    full = {"image": torch.ones(4), "text": torch.ones(4)}
    return calls(summed_up, [(full if followed else {"image": torch.ones(4)},), (full,)])


@wrong("dict_key")
def every_key_is_read_and_one_of_two_given(*, followed: bool) -> object:
    full = {"image": torch.ones(4), "text": torch.ones(4), "style": torch.ones(4)}
    first = {"image": torch.ones(4)} | ({"text": torch.ones(4)} if followed else {})
    return calls(summed_up, [(first,), (full,)])


@wrong("dict_keys")
def dict_of_growing_images(*, followed: bool) -> object:
    dicts = [{"image": torch.ones(size)} | ({"text": torch.zeros(size)} if followed else {}) for size in (4, 6)]
    return calls(with_text, [(inputs,) for inputs in dicts])


def folded(inputs: dict[str, Tensor]) -> Tensor:
    total = torch.zeros(())
    for name, value in inputs.items():
        total = total * 2 + value * len(name)
    return total


@cures("dict_order")
def another_order(*, followed: bool) -> object:
    ordered = {"image": torch.ones(4), "text": torch.zeros(4)}
    other = dict(reversed(ordered.items()))
    return calls(folded, [(ordered,), (ordered if followed else other,)])


@wrong("dict_order")
def ordered_dict_of_growing_images(*, followed: bool) -> object:
    dicts = [{"text": torch.ones(size), "image": torch.ones(size)} for size in (4, 6)]
    return calls(folded, [(dict(sorted(inputs.items())) if followed else inputs,) for inputs in dicts])


class Block(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, image: Tensor) -> Tensor:
        return self.norm(image) * 2


@cures("module_type")
def block_with_another_norm(*, followed: bool) -> object:
    norms = (nn.LayerNorm(4), nn.LayerNorm(4) if followed else nn.RMSNorm(4))
    with torch.no_grad():
        return [torch.compile(Block(norm), backend="eager")(torch.ones(2, 4)) for norm in norms]


@wrong("module_type")
def blocks_with_one_norm_and_a_growing_batch(*, followed: bool) -> object:
    norms = [nn.LayerNorm(4) if followed else nn.RMSNorm(4) for _ in range(2)]
    with torch.no_grad():
        rows = (2, 3)
        return [torch.compile(Block(n), backend="eager")(torch.ones(r, 4)) for n, r in zip(norms, rows, strict=True)]


def library_modules(sizes: tuple[int, ...], modules: tuple[nn.Module, ...], **settings: object) -> object:
    compiled = [torch.compile(module, backend="eager", **settings) for module in modules]
    return [module(torch.ones(size)) for size in sizes for module in compiled]


@cures("shared_code", since=(2, 13))
def library_modules_share_their_wrapper(*, followed: bool) -> object:
    settings = {"isolate_recompiles": True} if followed else {}
    return library_modules((4,), (nn.ReLU(), nn.GELU(), nn.Tanh()), **settings)


@wrong("shared_code")
def one_library_module_and_a_growing_image(*, followed: bool) -> object:
    settings = {"isolate_recompiles": True} if followed else {}
    return library_modules((4, 6), (nn.ReLU(),), **settings)


class Softmax:
    def __call__(self, image: Tensor) -> Tensor:
        return image.softmax(-1)


class Sigmoid:
    def __call__(self, image: Tensor) -> Tensor:
        return image.sigmoid()


class Attention(nn.Module):
    def __init__(self, processor: Softmax | Sigmoid) -> None:
        super().__init__()
        self.processor = processor

    def set_processor(self, processor: Softmax | Sigmoid) -> None:
        self.processor = processor

    def forward(self, image: Tensor) -> Tensor:
        return self.processor(image)


@cures("attention_processor")
def layers_have_processors_of_two_classes(*, followed: bool) -> object:
    layers = [Attention(Softmax()), Attention(Sigmoid())]
    if followed:
        for layer in layers:
            layer.set_processor(Softmax())
    return [torch.compile(layer, backend="eager")(IMAGE) for layer in layers]


@wrong("attention_processor")
def layers_have_processors_of_one_class(*, followed: bool) -> object:
    layers = [Attention(Sigmoid()), Attention(Sigmoid())]
    if followed:
        for layer in layers:
            layer.set_processor(Softmax())
    return [torch.compile(layer, backend="eager")(torch.ones(n)) for layer, n in zip(layers, (4, 6), strict=True)]


class Doubler:
    def apply(self, image: Tensor) -> Tensor:
        return image * 2


class Halver:
    def apply(self, image: Tensor) -> Tensor:
        return image / 2


def processed(image: Tensor, by: Doubler | Halver) -> Tensor:
    return by.apply(image)


@cures("type")
def another_class_of_argument(*, followed: bool) -> object:
    return calls(processed, [(IMAGE, Doubler()), (IMAGE, Doubler() if followed else Halver())])


@wrong("type")
def one_class_of_argument_and_a_growing_image(*, followed: bool) -> object:
    return calls(processed, [(torch.ones(size), Doubler() if followed else Halver()) for size in (4, 6)])


def added(left: Tensor, right: Tensor) -> Tensor:
    return left + right


@cures("aliasing")
def one_tensor_for_both_arguments_and_then_two(*, followed: bool) -> object:
    image = torch.ones(4)
    return calls(added, [(image, image.clone() if followed else image), (image, torch.ones(4))])


@wrong("aliasing")
def two_tensors_that_grow(*, followed: bool) -> object:
    pairs = [(torch.ones(size), torch.ones(size)) for size in (4, 6)]
    return calls(added, [(left, right.clone() if followed else right) for left, right in pairs])


def converted(image: Tensor, to: type) -> Tensor:
    return image * to(2.5)


@cures("object_id")
def another_class_as_an_argument(*, followed: bool) -> object:
    return calls(converted, [(IMAGE, int), (IMAGE, int if followed else float)])


@wrong("object_id")
def one_class_as_an_argument_and_a_growing_image(*, followed: bool) -> object:
    return calls(converted, [(torch.ones(size), int if followed else float) for size in (4, 6)])


def applied(image: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    return function(image)


def written() -> Callable[[Tensor], Tensor]:
    scope: dict[str, Callable[[Tensor], Tensor]] = {}
    exec("def sine(image): return image.sin()", scope)  # noqa: S102 (a function that is made anew at each call)
    return scope["sine"]


@cures("function")
def function_is_written_anew_for_each_call(*, followed: bool) -> object:
    once = written()
    return calls(applied, [(IMAGE, once if followed else written()) for _ in range(2)])


@cures("function")
def another_builtin_function(*, followed: bool) -> object:
    return calls(applied, [(IMAGE, torch.sin), (IMAGE, torch.sin if followed else torch.cos)])


@wrong("function")
def one_function_and_a_growing_image(*, followed: bool) -> object:
    once = written()
    return calls(applied, [(torch.ones(size), once if followed else torch.sin) for size in (4, 6)])
