"""Trials of the sentences about shapes that Inductor has a say in."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from typing import TYPE_CHECKING
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch._dynamo import mark_dynamic
from torch._dynamo.decorators import mark_unbacked
from torch._inductor.utils import fresh_cache
from torch.fx.experimental import _config as shape_config

from .shapes import doubled, long_or_short, marked
from .trial import after, calls, cures, wrong

if TYPE_CHECKING:
    from collections.abc import Callable


def under_inductor(sizes: tuple[int, ...], mark: Callable[[Tensor, int], None] | None, **settings: object) -> object:
    if shutil.which("g++") is None:
        pytest.skip("Inductor needs a C++ compiler")
    images = [torch.ones(rows, 3) for rows in sizes]
    inputs = [(image,) for image in images] if mark is None else marked(images, mark)
    return calls(doubled, inputs, backend="inductor", **settings)


@cures("zero_one")
def rows_become_one_under_inductor(*, followed: bool) -> object:
    with fresh_cache(), shape_config.patch(backed_size_oblivious=followed):
        return under_inductor((4, 1), mark_dynamic if followed else None)


@cures("zero_one")
def rows_become_none_under_inductor_and_are_unbacked(*, followed: bool) -> object:
    with fresh_cache():
        return under_inductor((4, 0), mark_unbacked if followed else None, dynamic=True)


@functools.cache
def old_cache() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def in_old_cache() -> contextlib.AbstractContextManager[object]:
    return mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=old_cache().name)


def graph_is_cached_before_sizes_are_free(*, followed: bool) -> object:
    with fresh_cache() if followed else in_old_cache():
        out = under_inductor((4,), None, dynamic=True)
    torch.compiler.reset()
    return out


@cures("zero_one_cached", since=(2, 13))
@after(graph_is_cached_before_sizes_are_free)
def rows_become_one_and_the_cache_is_old(*, followed: bool) -> object:
    with fresh_cache() if followed else in_old_cache(), shape_config.patch(backed_size_oblivious=True):
        return under_inductor((4, 1), None, dynamic=True)


@wrong("zero_one_cached")
def rows_are_branched_on_and_nothing_is_cached(*, followed: bool) -> object:
    with fresh_cache() if followed else contextlib.nullcontext():
        return calls(long_or_short, [(torch.ones(n),) for n in (4, 16)], dynamic=True)
