"""Graph breaks as they are met: what stopped tracing, where, and whether anything of the frame was compiled."""

from __future__ import annotations

import inspect
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

import compilescope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compilescope.record import Recording

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@torch.compiler.disable
def disabled(image: Tensor) -> Tensor:
    return image.sin()


def counted(image: Tensor) -> Iterator[Tensor]:
    for index in range(2):
        yield image + index


_LIBRARY = torch.library.Library("compilescope_tests", "FRAGMENT")
_LIBRARY.define("no_fake(Tensor image) -> Tensor")
_LIBRARY.impl("no_fake", lambda image: image.clone(), "CPU")


def item(image: Tensor) -> Tensor:
    total = image.sum().item()  # here
    return image + total


def to_list(image: Tensor) -> Tensor:
    return image + sum(image.tolist())  # here


def nonzero(image: Tensor) -> Tensor:
    return image.nonzero() + 1  # here


def boolean_mask(image: Tensor) -> Tensor:
    return image[image > 0] + 1  # here


def branch(image: Tensor) -> Tensor:
    if image.sum() > 0:  # here
        return image + 1
    return image - 1


def branch_under_no_grad(image: Tensor) -> Tensor:
    with torch.no_grad():
        if image.sum() > 0:  # here
            image = image + 1
    return image * 2


def explicit(image: Tensor) -> Tensor:
    image = image + 1
    torch._dynamo.graph_break()  # here
    return image * 2


def disabled_helper(image: Tensor) -> Tensor:
    return disabled(image + 1) * 2  # here


def warning(image: Tensor) -> Tensor:
    image = image + 1
    warnings.warn("careful", stacklevel=1)  # here
    return image * 2


def system_call(image: Tensor) -> Tensor:
    image = image + 1
    os.getpid()  # here
    return image * 2


def clock(image: Tensor) -> Tensor:
    image = image + 1
    time.perf_counter_ns()
    time.sleep(0)  # here
    return image * 2


def text_of_a_tensor(image: Tensor) -> Tensor:
    return image + len(str(image))  # here


def operator_without_fake_kernel(image: Tensor) -> Tensor:
    return torch.ops.compilescope_tests.no_fake(image + 1) * 2  # here


RESUMED: dict[Callable[[Tensor], object], str] = {
    item: "item",
    to_list: "item",
    nonzero: "dynamic_shape_op",
    boolean_mask: "dynamic_shape_op",
    branch: "data_dependent_branch",
    branch_under_no_grad: "data_dependent_branch",
    explicit: "explicit_graph_break",
    disabled_helper: "compiler_disable",
    warning: "skipped_function",
    system_call: "skipped_function",
    clock: "skipped_function",
    text_of_a_tensor: "builtin",
    operator_without_fake_kernel: "no_fake_kernel",
}


def observed(function: Callable[[Tensor], object], *images: Tensor, **settings: object) -> Recording:
    with compilescope.observe(count_runs=True) as scope, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(function, backend="eager", **settings)
        for image in images:
            compiled(image)
    return scope.recording


def marked_line(function: Callable[..., object]) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(index for index, line in enumerate(lines) if line.rstrip().endswith("# here"))


@pytest.mark.parametrize("function", RESUMED, ids=lambda function: function.__name__)
def test_break_is_told_by_its_line_and_kind_and_the_rest_is_resumed(function: Callable[[Tensor], object]) -> None:
    recording = observed(function, torch.ones(3), torch.ones(3))
    site = recording.graph_breaks[-1]
    assert (site.line, site.kind) == (marked_line(function), RESUMED[function])
    assert not site.skips_frame
    assert site.registry_id is not None
    assert site.registry_id.startswith("GB")
    assert "here" in (site.text or "")
    parents = {code.id: code.resumes for code in recording.code_objects}
    resumed = [c for c in recording.compiled if parents[c.code] is not None]
    assert resumed
    assert all(parents[c.code] == recording.compilations[0].code for c in resumed)


def print_in_a_loop(image: Tensor) -> Tensor:
    for _ in range(2):
        image = image + 1
        print(end="")  # here # noqa: T201
    return image


def print_under_finally(image: Tensor) -> Tensor:
    try:
        image = image + 1
        print(end="")  # noqa: T201
    finally:
        image = image * 2
    return image


def skip_frame(image: Tensor) -> Tensor:
    torch._dynamo.skip_frame()
    return image + 1


@pytest.mark.parametrize(
    ("function", "kind"),
    [(print_in_a_loop, "print"), (print_under_finally, "print"), (skip_frame, "explicit_graph_break")],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_break_that_cannot_be_resumed_leaves_the_frame_eager(function: Callable[[Tensor], object], kind: str) -> None:
    recording = observed(function, torch.ones(3), torch.ones(3), torch.ones(3))
    assert not recording.compiled
    (site,) = recording.graph_breaks
    assert (site.kind, site.events, site.skips_frame) == (kind, 1, True)
    assert [(f.kind, f.calls) for f in recording.fallbacks] == [("skipped_frame", 3)]


def test_item_in_a_comprehension_is_one_site() -> None:
    def totals(image: Tensor) -> list[float]:
        return [(image + index).sum().item() for index in range(2)]

    (site,) = observed(totals, torch.ones(3)).graph_breaks
    if sys.version_info >= (3, 12):
        # The comprehension is part of its function there, and Dynamo keeps to itself why it stopped in it.
        assert (site.kind, site.reason, site.skips_frame) == ("other", "comprehension_graph_break", False)
    else:
        assert (site.kind, site.skips_frame) == ("item", True)


def test_one_site_met_at_two_sizes_has_two_events() -> None:
    (site,) = observed(explicit, torch.ones(3), torch.ones(5)).graph_breaks
    assert site.events == 2


def test_break_under_fullgraph_is_an_error_of_the_users_and_no_fallback() -> None:
    with compilescope.observe(count_runs=True) as scope, pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(explicit, backend="eager", fullgraph=True)(torch.ones(3))
    recording = scope.recording
    assert [c.outcome for c in recording.compilations] == ["failed"]
    assert recording.compilations[0].error.kind == "unsupported"
    assert recording.fallbacks == ()
    assert [site.kind for site in recording.graph_breaks] == ["explicit_graph_break"]


def test_custom_operator_without_fake_kernel_is_an_error_that_says_so() -> None:
    @torch.library.custom_op("compilescope_tests::custom", mutates_args=())
    def custom(image: Tensor) -> Tensor:
        return image.clone()

    with compilescope.observe() as scope, pytest.raises(torch._dynamo.exc.TorchRuntimeError):
        torch.compile(lambda image: custom(image) * 2, backend="eager")(torch.ones(3))
    (compilation,) = scope.recording.compilations
    assert compilation.outcome == "failed"
    assert "no fake impl" in compilation.error.message


def test_exception_of_the_users_while_tracing_leaves_the_code_eager_for_good() -> None:
    def checked(image: Tensor) -> Tensor:
        if image.shape[0] > 5:
            msg = "too long"
            raise ValueError(msg)
        return image * 2

    with compilescope.observe(count_runs=True) as scope:
        compiled = torch.compile(checked, backend="eager")
        compiled(torch.ones(3))
        with pytest.raises(ValueError, match="too long"):
            compiled(torch.ones(9))
        compiled(torch.ones(3))
    recording = scope.recording
    assert [f.kind for f in recording.fallbacks] == ["user_exception"]
    assert recording.fallbacks[0].calls == 2
    assert recording.graph_breaks == ()


def test_generator_that_is_called_inside_is_inlined_without_a_break() -> None:
    recording = observed(lambda image: sum(counted(image)), torch.ones(3))
    assert len(recording.compiled) == 1
    assert recording.graph_breaks == ()
