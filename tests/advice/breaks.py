"""Trials of the sentences about graph breaks, resume functions and errors."""

from __future__ import annotations

import contextlib
import logging
import warnings

import torch
from torch import Tensor
from torch._dynamo import config, mark_dynamic

from .trial import calls, cures, wrong

LOG = logging.getLogger(__name__)
IMAGES = [(torch.ones(4),), (torch.ones(4),)]
GROWING = [(torch.ones(size),) for size in (4, 6, 8)]


def printing(image: Tensor) -> Tensor:
    image = image + 1
    print("halfway")  # noqa: T201 (that is the point)
    image = image * 2
    print(image.sum())  # noqa: T201 (that is the point)
    return image + 3


def printing_its_shape(image: Tensor) -> Tensor:
    image = image + 1
    print(image.shape, end="\r")  # noqa: T201 (that is the point)
    return image * 2


def logging_twice(image: Tensor) -> Tensor:
    image = image + 1
    LOG.info("halfway")
    image = image * 2
    LOG.info("nearly %s", image.sum())
    return image + 3


def warning(image: Tensor) -> Tensor:
    image = image + 1
    warnings.warn("careful")  # noqa: B028 (2.15 puts off no call with keywords)
    return image * 2


@cures("print")
def two_prints(*, followed: bool) -> object:
    with config.patch(reorderable_logging_functions={print} if followed else set()):
        return calls(printing, IMAGES)


@cures("print")
def two_prints_left_out(*, followed: bool) -> object:
    with config.patch(ignore_logging_functions={print} if followed else set()):
        return calls(printing, IMAGES)


@cures("print")
def a_warning(*, followed: bool) -> object:
    later = {warnings.warn} if followed else set()
    with config.patch(reorderable_logging_functions=later), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calls(warning, IMAGES)


@cures("resumed")
@cures("print")
def two_prints_in_what_is_called_with_growing_images(*, followed: bool) -> object:
    with config.patch(reorderable_logging_functions={print} if followed else set()):
        return calls(printing, GROWING, dynamic=True if followed else None)


@cures("print_ignored")
def a_print_of_a_shape_that_cannot_run_later(*, followed: bool) -> object:
    later, never = (set(), {print}) if followed else ({print}, set())
    with config.patch(reorderable_logging_functions=later, ignore_logging_functions=never):
        return calls(printing_its_shape, IMAGES)


@wrong("print")
def a_print_of_a_shape_that_is_put_off_already(*, followed: bool) -> object:
    del followed
    with config.patch(reorderable_logging_functions={print}):
        return calls(printing_its_shape, IMAGES)


@cures("logging")
def two_log_calls(*, followed: bool) -> object:
    with config.patch(ignore_logger_methods={logging.Logger.info} if followed else set()):
        return calls(logging_twice, IMAGES)


@wrong("logging")
@wrong("print_ignored")
def a_call_of_a_disabled_function(*, followed: bool) -> object:
    ignored = {logging.Logger.info, print} if followed else set()
    with config.patch(ignore_logging_functions=ignored):
        return calls(calling_disabled, IMAGES)


def item(image: Tensor) -> Tensor:
    return image + image.sum().item()


def item_branched_on(image: Tensor) -> Tensor:
    return image + 1 if image.sum().item() > 0 else image - 1


def chosen(image: Tensor) -> Tensor:
    return torch.where(image.sum() > 0, image + 1, image - 1)


@cures("item")
def an_item_that_is_added(*, followed: bool) -> object:
    with config.patch(capture_scalar_outputs=followed):
        return calls(item, IMAGES)


@wrong("item")
def an_item_that_is_branched_on(*, followed: bool) -> object:
    with config.patch(capture_scalar_outputs=followed):
        return calls(item_branched_on, IMAGES)


@cures("item_branched")
def an_item_that_is_branched_on_kept_as_a_tensor(*, followed: bool) -> object:
    return calls(chosen if followed else item_branched_on, IMAGES)


def branching(image: Tensor) -> Tensor:
    if image.sum() > 0:
        return image + 1
    return image - 1


@cures("data_dependent_branch")
def a_branch_on_a_tensor(*, followed: bool) -> object:
    return calls(chosen if followed else branching, IMAGES)


def nonzero(image: Tensor) -> Tensor:
    return image.nonzero() + 1


@cures("resumed")
@cures("dynamic_shape_op")
def a_nonzero(*, followed: bool) -> object:
    with config.patch(capture_dynamic_output_shape_ops=followed):
        return calls(nonzero, [(torch.tensor(values),) for values in ([0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1])])


@wrong("dynamic_shape_op")
def a_branch_under_captured_shapes(*, followed: bool) -> object:
    with config.patch(capture_dynamic_output_shape_ops=followed):
        return calls(branching, IMAGES)


def breaking(image: Tensor) -> Tensor:
    image = image + 1
    torch._dynamo.graph_break()
    return image * 2


def whole(image: Tensor) -> Tensor:
    return (image + 1) * 2


@cures("explicit_graph_break")
def an_explicit_break(*, followed: bool) -> object:
    return calls(whole if followed else breaking, IMAGES)


@wrong("resumed")
@wrong("break_of_library")
def an_explicit_break_and_growing_images(*, followed: bool) -> object:
    del followed
    return calls(breaking, GROWING)


@torch.compiler.disable
def disabled(image: Tensor) -> Tensor:
    return image.sin()


def calling_disabled(image: Tensor) -> Tensor:
    return disabled(image + 1) * 2


@cures("compiler_disable")
def a_disabled_function(*, followed: bool) -> object:
    if followed:
        before, after = torch.compile(whole, backend="eager"), torch.compile(lambda image: image * 2, backend="eager")
        return [after(disabled(before(image))) for (image,) in IMAGES]
    return calls(calling_disabled, IMAGES)


@wrong("explicit_graph_break")
@wrong("compiler_disable")
@wrong("data_dependent_branch")
@wrong("item_branched")
def a_print_beside_what_is_whole(*, followed: bool) -> object:
    del followed
    return calls(printing, IMAGES)


_LIBRARY = torch.library.Library("compilescope_advice", "FRAGMENT")
_LIBRARY.define("no_fake(Tensor image) -> Tensor")
_LIBRARY.impl("no_fake", lambda image: image.clone(), "CPU")
_LIBRARY.define("with_fake(Tensor image) -> Tensor")
_LIBRARY.impl("with_fake", lambda image: image.clone(), "CPU")
torch.library.register_fake("compilescope_advice::with_fake", torch.empty_like, lib=_LIBRARY)


@cures("no_fake_kernel")
def an_operator_without_a_fake_kernel(*, followed: bool) -> object:
    operator = torch.ops.compilescope_advice.with_fake if followed else torch.ops.compilescope_advice.no_fake
    return calls(lambda image: operator(image + 1) * 2, IMAGES)


@wrong("no_fake_kernel")
def an_operator_with_a_fake_kernel_and_a_growing_image(*, followed: bool) -> object:
    del followed
    return calls(lambda image: torch.ops.compilescope_advice.with_fake(image + 1) * 2, GROWING)


def added(image: Tensor, text: Tensor) -> Tensor:
    return image + text


@cures("constraint_violation")
def one_of_two_equal_dimensions_is_marked(*, followed: bool) -> object:
    pairs = [(torch.ones(rows, 3), torch.ones(rows, 3)) for rows in (4, 6)]
    for image, text in pairs:
        mark_dynamic(image, 0)
        if followed:
            mark_dynamic(text, 0)
    return calls(added, pairs)


@wrong("constraint_violation")
def both_are_marked_and_one(*, followed: bool) -> object:
    pairs = [(torch.ones(rows, 3), torch.ones(rows, 3)) for rows in (4, 1)]
    if followed:
        for image, text in pairs:
            mark_dynamic(image, 0)
            mark_dynamic(text, 0)
    with contextlib.suppress(IndexError):
        return calls(added, pairs)
    return None


@cures("recompile_limit")
def sizes_reach_the_limit(*, followed: bool) -> object:
    sizes = range(2, 7)
    with config.patch(recompile_limit=4):
        return calls(whole, [(torch.ones(size),) for size in sizes], dynamic=followed)


@wrong("recompile_limit")
@wrong("recompile_forbidden")
def sizes_do_not_reach_the_limit(*, followed: bool) -> object:
    with config.patch(recompile_limit=16 if followed else 8):
        return calls(whole, GROWING, dynamic=False)


@cures("recompile_forbidden")
def a_recompile_is_forbidden(*, followed: bool) -> object:
    compiled = torch.compile(whole, backend="eager")
    first = compiled(torch.ones(4, dtype=torch.float64 if followed else torch.float32))
    with config.patch(error_on_recompile=True):
        return first, compiled(torch.ones(4, dtype=torch.float64))
