"""Trials of the sentences about shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import mark_dynamic
from torch._dynamo.decorators import mark_unbacked
from torch.fx.experimental import _config as shape_config

from .trial import after, calls, cures, wrong

if TYPE_CHECKING:
    from collections.abc import Callable


def doubled(image: Tensor) -> Tensor:
    return image * 2


def added(image: Tensor, text: Tensor) -> Tensor:
    return image + text


@cures("dynamic")
def rows_grow(*, followed: bool) -> object:
    return calls(doubled, [(torch.ones(rows, 3),) for rows in (4, 6, 8)], dynamic=True if followed else None)


@cures("dynamic")
def rows_grow_and_are_marked(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 6, 8)]
    if followed:
        for image in images:
            mark_dynamic(image, 0)
    return calls(doubled, [(image,) for image in images])


@cures("dynamic")
def equal_rows_grow_and_are_marked_together(*, followed: bool) -> object:
    pairs = [(torch.ones(rows, 3), torch.ones(rows, 3)) for rows in (4, 6)]
    if followed:
        for tensor in (tensor for pair in pairs for tensor in pair):
            mark_dynamic(tensor, 0)
    return calls(added, pairs)


SLOTS = {4: 1}


def looked_up(image: Tensor) -> Tensor:
    slot = SLOTS.get(image.shape[0], 0)
    return image + slot


def slot_given(image: Tensor, slot: Tensor) -> Tensor:
    return image + slot


@wrong("dynamic")
def rows_are_looked_up_and_marked(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 6)]
    if followed:
        for image in images:
            mark_dynamic(image, 0)
    return calls(looked_up, [(image,) for image in images], dynamic=True)


@cures("dynamic_instead")
def rows_grow_under_dynamic_false(*, followed: bool) -> object:
    return calls(doubled, [(torch.ones(rows, 3),) for rows in (4, 6, 8)], dynamic=followed)


@cures("dynamic_instead")
def rows_grow_under_dynamic_false_and_are_marked(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 6, 8)]
    if followed:
        for image in images:
            mark_dynamic(image, 0)
    return calls(doubled, [(image,) for image in images], dynamic=False)


@wrong("dynamic_instead")
def rows_become_one_under_dynamic_false(*, followed: bool) -> object:
    return calls(doubled, [(torch.ones(rows, 3),) for rows in (4, 1)], dynamic=followed)


class Projection(nn.Module):
    def __init__(self, rank: int, kind: str) -> None:
        super().__init__()
        weight = torch.ones(rank, 3)
        if kind == "parameter":
            self.weight = nn.Parameter(weight)
        elif kind == "buffer":
            self.register_buffer("weight", weight)
        else:
            self.weight = weight

    def forward(self, image: Tensor) -> Tensor:
        return image @ self.weight.t() @ self.weight


def projected(kind: str, **settings: object) -> object:
    layers = [Projection(rank, kind) for rank in (4, 6, 8)]
    return [torch.compile(layer, backend="eager", **settings)(torch.ones(2, 3)) for layer in layers]


@cures("static_parameter")
def parameter_of_another_size(*, followed: bool) -> object:
    with torch._dynamo.config.patch(force_parameter_static_shapes=not followed):
        return projected("parameter", dynamic=True if followed else None)


@cures("static_parameter")
def buffer_of_another_size(*, followed: bool) -> object:
    with torch._dynamo.config.patch(force_parameter_static_shapes=not followed):
        return projected("buffer", dynamic=True)


@cures("static_parameter")
def parameter_padded_to_one_size(*, followed: bool) -> object:
    layers = [Projection(8 if followed else rank, "parameter") for rank in (4, 6, 8)]
    return [torch.compile(layer, backend="eager", dynamic=True)(torch.ones(2, 3)) for layer in layers]


@wrong("static_parameter")
def plain_attribute_of_another_size(*, followed: bool) -> object:
    # What frees a parameter frees nothing where automatic dynamic sizes free it one call later anyway.
    with torch._dynamo.config.patch(force_parameter_static_shapes=not followed):
        return projected("attribute")


@wrong("dynamic")
@wrong("pinned_somewhere")
def parameter_under_dynamic_true(*, followed: bool) -> object:
    return projected("parameter", dynamic=True if followed else None)


class Adapted(nn.Module):
    """A layer with a LoRA adapter under the names that peft uses."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.lora_A = nn.ModuleDict({"default": nn.Linear(3, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, 3, bias=False)})

    def forward(self, image: Tensor) -> Tensor:
        return image + self.lora_B["default"](self.lora_A["default"](image))


@cures("lora_rank")
def adapters_of_two_ranks(*, followed: bool) -> object:
    """What enable_lora_hotswap(target_rank=8) does is to pad every adapter to that rank."""
    attention: Any = pytest.importorskip("diffusers.models.attention")
    blocks = [attention.FeedForward(3).eval() for _ in range(2)]
    for block, rank in zip(blocks, (4, 8), strict=True):
        block.net[2] = nn.Sequential(nn.Linear(12, 3), Adapted(8 if followed else rank)).eval()
    with torch.no_grad():
        return [torch.compile(b.forward, backend="eager", dynamic=True)(torch.ones(2, 3)) for b in blocks]


@wrong("lora_rank")
def adapter_of_one_rank_and_another_input(*, followed: bool) -> object:
    layer = Adapted(8 if followed else 4).eval()
    with torch.no_grad():
        return calls(layer, [(torch.ones(rows, 3),) for rows in (2, 4)])


@cures("pinned")
def rows_are_looked_up(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 6)]
    if followed:
        return calls(slot_given, [(i, torch.tensor(SLOTS.get(i.shape[0], 0))) for i in images], dynamic=True)
    return calls(looked_up, [(image,) for image in images], dynamic=True)


def compared(image: Tensor) -> Tensor:
    if image.shape[0] == 4:
        return image * 2
    return image * 3


@cures("pinned_compared")
def rows_are_compared(*, followed: bool) -> object:
    return calls(compared, [(torch.ones(rows, 3),) for rows in ((4, 4) if followed else (4, 6))], dynamic=True)


@wrong("pinned")
@wrong("pinned_compared")
def rows_are_only_calculated_with(*, followed: bool) -> object:
    def scaled(image: Tensor) -> Tensor:
        return image * image.shape[0]

    def scaled_by(image: Tensor, rows: Tensor) -> Tensor:
        return image * rows

    images = [torch.ones(rows, 3) for rows in (4, 6)]
    if followed:
        return calls(scaled_by, [(image, torch.tensor(image.shape[0])) for image in images])
    return calls(scaled, [(image,) for image in images])


def joined(image: Tensor, text: Tensor) -> Tensor:
    return image.sum(dim=1) * 2 + torch.nn.functional.linear(text, torch.ones(1, 5)).sum()


@cures("pinned_by_chance")
def columns_are_as_many_as_the_features_of_the_text(*, followed: bool) -> object:
    pairs = [(torch.ones(3, columns), torch.ones(2, 5)) for columns in (5, 7)]
    with shape_config.patch(use_duck_shape=not followed):
        return calls(joined, pairs, dynamic=True)


@wrong("pinned_by_chance")
def columns_are_looked_up_and_as_many_as_others(*, followed: bool) -> object:
    def both(image: Tensor, other: Tensor) -> Tensor:
        return image * SLOTS.get(image.shape[0], 0) + other

    pairs = [(torch.ones(rows, 3), torch.ones(rows, 3)) for rows in (4, 6)]
    with shape_config.patch(use_duck_shape=not followed):
        return calls(both, pairs, dynamic=True)


@cures("marked_static")
def rows_marked_static_under_dynamic_true(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 6)]
    if not followed:
        for image in images:
            torch._dynamo.mark_static(image, 0)
    return calls(doubled, [(image,) for image in images], dynamic=True)


@wrong("marked_static")
def columns_are_free_and_one(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 1)]
    if not followed:
        for image in images:
            torch._dynamo.mark_static(image, 1)
    return calls(doubled, [(image,) for image in images], dynamic=True)


looked_up_early = torch.compile(looked_up, backend="eager", dynamic=True)


def rows_are_looked_up_unseen(*, followed: bool) -> object:
    return None if followed else looked_up_early(torch.ones(4, 3))


@cures("pinned_somewhere")
@after(rows_are_looked_up_unseen)
def rows_are_looked_up_after_a_call_that_nobody_saw(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 6)]
    if followed:
        return calls(slot_given, [(i, torch.tensor(SLOTS.get(i.shape[0], 0))) for i in images], dynamic=True)
    return [looked_up_early(image) for image in images]


def marked(images: list[Tensor], mark: Callable[[Tensor, int], None], dimension: int = 0) -> list[tuple[Tensor]]:
    for image in images:
        mark(image, dimension)
    return [(image,) for image in images]


@cures("zero_one")
def rows_become_one_and_sizes_are_free(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 1, 0, 5)]
    with shape_config.patch(backed_size_oblivious=followed):
        return calls(doubled, marked(images, mark_dynamic) if followed else [(image,) for image in images])


@cures("zero_one")
def rows_become_none_under_dynamic_true(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 0)]
    return calls(doubled, marked(images, mark_unbacked) if followed else [(i,) for i in images], dynamic=True)


@cures("zero_one")
def columns_become_one_beside_a_table_of_one_row(*, followed: bool) -> object:
    pairs = [(torch.ones(2, columns, 6), torch.ones(1, columns, 6)) for columns in (7, 1)]

    def rotated(image: Tensor, table: Tensor) -> Tensor:
        return image * table

    with shape_config.patch(backed_size_oblivious=followed):
        if followed:
            for tensor in (tensor for pair in pairs for tensor in pair):
                mark_dynamic(tensor, 1)
        return calls(rotated, pairs, dynamic=None if followed else True)


@cures("zero_inside")
def no_columns(*, followed: bool) -> object:
    images = [torch.ones(2, columns, 3) for columns in ((4, 5) if followed else (4, 0))]
    return calls(doubled, [(image,) for image in images], dynamic=True)


@wrong("zero_inside")
def columns_grow(*, followed: bool) -> object:
    images = [torch.ones(2, columns, 3) for columns in ((4, 5) if followed else (4, 6))]
    return calls(doubled, [(image,) for image in images])


@wrong("zero_one")
def no_columns_and_sizes_are_free(*, followed: bool) -> object:
    images = [torch.ones(2, columns, 3) for columns in (4, 0)]
    with shape_config.patch(backed_size_oblivious=followed):
        return calls(doubled, marked(images, mark_dynamic, 1) if followed else [(image,) for image in images])


@wrong("zero_one")
def no_columns_and_unbacked(*, followed: bool) -> object:
    images = [torch.ones(2, columns, 3) for columns in (4, 0)]
    return calls(doubled, marked(images, mark_unbacked, 1) if followed else [(i,) for i in images], dynamic=True)


@cures("zero_one")
def rows_become_many_and_are_unbacked(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (1, 5, 0)]
    if followed:
        for image in images:
            mark_unbacked(image, 0)
    return calls(doubled, [(image,) for image in images], dynamic=True)


@cures("zero_one", since=(2, 13))
def rows_become_one_and_are_named_in_a_spec(*, followed: bool) -> object:
    settings: dict[str, object] = {"dynamic": True}
    if followed:
        from torch.fx.experimental.dynamic_spec import ParamsSpec, ShapeVar, TensorSpec

        name = "shapes_spec" if torch.__version__.startswith("2.13") else "dynamic_shapes"
        settings = {name: ParamsSpec({"image": TensorSpec([ShapeVar("rows"), None])})}
    return calls(doubled, [(torch.ones(rows, 3),) for rows in (5, 1, 0)], **settings)


def long_or_short(image: Tensor) -> Tensor:
    return image.sin() if image.shape[0] > 10 else image.cos()


@wrong("zero_one")
def rows_are_branched_on_and_unbacked(*, followed: bool) -> object:
    images = [torch.ones(rows, 3) for rows in (4, 16, 1)]
    if followed:
        for image in images:
            mark_unbacked(image, 0)
    return calls(long_or_short, [(image,) for image in images], dynamic=True)


@cures("zero_one_branched")
def rows_are_branched_on_and_padded(*, followed: bool) -> object:
    sizes = (4, 5, 6, 9) if followed else (16, 4, 1)
    return calls(long_or_short, [(torch.ones(rows, 3),) for rows in sizes], dynamic=True)


@wrong("zero_one_branched")
@wrong("zero_one_expected")
def rows_grow_beyond_what_is_padded(*, followed: bool) -> object:
    sizes = (4, 6) if followed else (4, 8)
    return calls(doubled, [(torch.ones(rows, 3),) for rows in sizes])


def one_or_many(image: Tensor) -> Tensor:
    return image.sum(0) if image.shape[0] > 1 else image


@cures("zero_one_expected")
def one_row_is_told_from_many_by_the_code(*, followed: bool) -> object:
    with shape_config.patch(backed_size_oblivious=True):
        sizes = (4, 2) if followed else (4, 1)
        return calls(one_or_many, [(torch.ones(rows, 3),) for rows in sizes], dynamic=True)


@cures("rank")
def another_rank(*, followed: bool) -> object:
    images = (torch.ones(4, 3), torch.ones(2, 2, 3))
    return calls(doubled, [(image.flatten(0, -2) if followed else image,) for image in images])


@wrong("rank")
def flattened_images_of_two_sizes(*, followed: bool) -> object:
    images = (torch.ones(4, 3), torch.ones(6, 3))
    return calls(doubled, [(image.flatten() if followed else image,) for image in images])


def both_doubled(image: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
    return image * 2, text * 2


@cures("duck_size")
def equal_sizes_part(*, followed: bool) -> object:
    with shape_config.patch(use_duck_shape=not followed):
        return calls(both_doubled, [(torch.ones(5), torch.ones(tokens)) for tokens in (5, 7)], dynamic=True)


@cures("duck_size")
def unequal_sizes_come_first(*, followed: bool) -> object:
    texts = (7, 9) if followed else (5, 7)
    return calls(both_doubled, [(torch.ones(5), torch.ones(tokens)) for tokens in texts], dynamic=True)


@cures("duck_zero_one")
def equal_sizes_part_and_one_is_one(*, followed: bool) -> object:
    pairs = [(torch.ones(5), torch.ones(tokens)) for tokens in (5, 1)]
    if followed:
        for tensor in (tensor for pair in pairs for tensor in pair):
            mark_unbacked(tensor, 0)
    return calls(both_doubled, pairs, dynamic=True)


@wrong("duck_zero_one")
def equal_sizes_are_added_and_unbacked(*, followed: bool) -> object:
    pairs = [(torch.ones(rows, 3), torch.ones(rows, 3)) for rows in (5, 1)]
    if followed:
        for image, text in pairs:
            mark_unbacked(image, 0)
            mark_dynamic(text, 0)
    return calls(added, pairs, dynamic=True)


@wrong("duck_size")
def equal_sizes_are_added(*, followed: bool) -> object:
    """The sum needs them to be equal, whatever the setting."""
    with shape_config.patch(use_duck_shape=not followed):
        return calls(added, [(torch.ones(5, 3), torch.ones(rows, 3)) for rows in (5, 1)], dynamic=True)


def tiled(image: Tensor) -> Tensor:
    return image.view(-1, 4) if image.shape[0] % 4 == 0 else image[:, None]


@cures("divisibility")
def length_is_no_multiple(*, followed: bool) -> object:
    lengths = (16, 24 if followed else 23)
    return calls(tiled, [(torch.ones(length),) for length in lengths], dynamic=True)


@wrong("divisibility")
def padded_length_crosses_a_bound(*, followed: bool) -> object:
    lengths = (4, 16) if followed else (5, 15)
    return calls(long_or_short, [(torch.ones(length),) for length in lengths], dynamic=True)


@cures("bound")
def length_crosses_a_bound(*, followed: bool) -> object:
    return calls(long_or_short, [(torch.ones(n),) for n in (5, 9 if followed else 15)], dynamic=True)


@wrong("bound")
def length_stays_short_and_is_one(*, followed: bool) -> object:
    return calls(long_or_short, [(torch.ones(n),) for n in (5, 1)], dynamic=True if followed else None)


def aligned(image: Tensor, text: Tensor) -> Tensor:
    return image.sin() if image.shape[0] == 2 * text.shape[0] else image.cos()


@cures("shape_relation")
def texts_are_no_longer_half_as_long(*, followed: bool) -> object:
    inputs = [(torch.ones(n), torch.ones(n // 2 if followed else 3)) for n in (6, 8)]
    return calls(aligned, inputs, dynamic=True)


@wrong("shape_relation")
def relation_is_kept_and_the_size_static(*, followed: bool) -> object:
    inputs = [(torch.ones(n), torch.ones(n // 2)) for n in ((6, 8) if followed else (6, 10))]
    return calls(aligned, inputs)
