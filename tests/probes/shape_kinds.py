"""Probes of the shape family."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo.decorators import mark_unbacked
from torch.fx.experimental import _config as shape_config

from .probe import probe


def doubled(image: Tensor) -> Tensor:
    return image * 2


@probe("size", "image.size()[0]")
def second_size(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager", dynamic=True if cured else None)
    for rows in (4, 6):
        compiled(torch.ones(rows, 3))


@probe("size", "image.size()[1]")
def size_that_is_static_by_choice(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager", dynamic=False)
    for columns in (4, 6):
        image = torch.ones(3, columns)
        if cured:
            torch._dynamo.mark_dynamic(image, 1)
        compiled(image)


@probe("zero_one", "image.size()[0]")
def batch_of_one(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager", dynamic=True)
    for rows in (4, 1):
        image = torch.ones(rows, 3)
        if cured:
            mark_unbacked(image, 0)
        compiled(image)


@probe("zero_one", "image.size()[0]")
def empty_batch(*, cured: bool) -> None:
    with shape_config.patch(backed_size_oblivious=cured):
        compiled = torch.compile(doubled, backend="eager", dynamic=True)
        for rows in (4, 0):
            compiled(torch.ones(rows, 3))


@probe("zero_one", "image.size()[0]")
def many_after_one(*, cured: bool) -> None:
    with shape_config.patch(backed_size_oblivious=cured):
        compiled = torch.compile(doubled, backend="eager", dynamic=True)
        for rows in (1, 4):
            compiled(torch.ones(rows, 3))


@probe("rank", "image.dim()")
def another_rank(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager", dynamic=True)
    for image in (torch.ones(4, 3), torch.ones(2, 2, 3)):
        compiled(image.flatten(0, -2) if cured else image)


def both_doubled(image: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
    return image * 2, text * 2


def joined_sums(image: Tensor, table: Tensor) -> Tensor:
    return image.sum() + table.sum()


@probe("duck_size", "image.size()[0], table.storage_offset()")
def offset_that_had_the_value_of_a_size(*, cured: bool) -> None:
    packed = torch.ones(64)
    with shape_config.patch(use_duck_shape=not cured):
        compiled = torch.compile(joined_sums, backend="eager", dynamic=True)
        for rows in (24, 30):
            compiled(torch.ones(rows, 3), packed[24:31])


@probe("duck_size", "image.size()[0], text.size()[0]")
def sizes_that_were_equal_by_chance(*, cured: bool) -> None:
    with shape_config.patch(use_duck_shape=not cured):
        compiled = torch.compile(both_doubled, backend="eager", dynamic=True)
        for tokens in (5, 7):
            compiled(torch.ones(5), torch.ones(tokens))


def tiled(image: Tensor) -> Tensor:
    return image.view(-1, 4) if image.shape[0] % 4 == 0 else image[:, None]


@probe("divisibility", "image.size()[0]")
def branch_on_a_remainder(*, cured: bool) -> None:
    compiled = torch.compile(tiled, backend="eager", dynamic=True)
    for length in (16, 23):
        compiled(torch.ones(length + -length % 4 if cured else length))


def long_or_short(image: Tensor) -> Tensor:
    return image.sin() if image.shape[0] > 10 else image.cos()


@probe("bound", "image.size()[0]")
def branch_on_a_bound(*, cured: bool) -> None:
    compiled = torch.compile(long_or_short, backend="eager", dynamic=True)
    for length in (5, 9 if cured else 15):
        compiled(torch.ones(length))


def aligned(image: Tensor, text: Tensor) -> Tensor:
    return image.sin() if image.shape[0] == 2 * text.shape[0] else image.cos()


@probe("shape_relation", "image.size()[0], text.size()[0]")
def branch_on_a_relation(*, cured: bool) -> None:
    compiled = torch.compile(aligned, backend="eager", dynamic=True)
    for length in (6, 8):
        compiled(torch.ones(length), torch.ones(length // 2 if cured else 3))


def joined(image: Tensor, text: Tensor) -> Tensor:
    return image + text


@probe("shape_relation", "image.size()[0], text.size()[0]")
def sum_that_becomes_a_broadcast(*, cured: bool) -> None:
    with shape_config.patch(use_duck_shape=False):
        compiled = torch.compile(joined, backend="eager", dynamic=True)
        for rows in (5, 5 if cured else 1):
            compiled(torch.ones(5, 3), torch.ones(rows, 3))
