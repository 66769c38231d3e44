"""Observing changes nothing: each program does the same with compilescope watching, seen by means of its own.

Held over every program of the corpus, every probe, and the programs below, which are the ones that could tell: their
outcome depends on who stands on Python's stack, or on what is raised and by whom.
"""

from __future__ import annotations

import functools
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import compilescope

from ..corpus.gathered import PROGRAMS
from ..neutral import Trail, trail
from . import attribute_kinds, shape_kinds, tensor_kinds, value_kinds
from .probe import Probe, probes_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..corpus.expectation import Program

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

# Which of two threads comes first is left to chance.
CHANCE = ("another_thread_compiles_the_same_meanwhile",)
CORPUS = [program for program in PROGRAMS if program.name not in CHANCE]
PROBES = [p for module in (shape_kinds, tensor_kinds, value_kinds, attribute_kinds) for p in probes_in(module)]
OURS = str(Path(compilescope.__file__).parent)


def assert_neutral(program: Callable[[], object]) -> Trail:
    """Check that a program does one thing, whether or not it is observed, and return what."""
    # What a library does in a process for the first time it does once, whoever watches: the second round counts then.
    for _ in range(2):
        # Both are called from one line: the line stands on the stacks that are compared.
        without, observed = [trail(program, observed=observed) for observed in (False, True)]
        if observed == without:
            break
    assert observed == without
    return without


# Whole models of libraries: each is also held to its causes, and models/ to the same claim.
LARGE = (
    "batch_of_a_mixture_of_experts_is_pinned",
    "decoder_of_an_autoencoder_meets_a_batch_of_one",
    "mask_is_given_to_a_text_encoder",
)


@pytest.mark.parametrize(
    "program",
    [pytest.param(program, marks=[pytest.mark.slow] if program.name in LARGE else []) for program in CORPUS],
    ids=[program.name for program in CORPUS],
)
def test_program_of_the_corpus_does_the_same_when_it_is_observed(program: Program) -> None:
    seen = assert_neutral(program.run)
    assert len([end for _, end in seen.compiles if end == "compiled"]) >= sum(program.expected.compiles.values())


@pytest.mark.parametrize("cured", [False, True], ids=["as it stands", "cured"])
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_probe_does_the_same_when_it_is_observed(probe: Probe, cured: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    assert assert_neutral(functools.partial(probe.run, cured=cured)).runs


# --- programs that look at who calls ---------------------------------------------------------------


def helper(image: Tensor) -> Tensor:
    return image.cos()


class Disabled(nn.Module):
    @torch.compiler.disable(recursive=False)
    def forward(self, image: Tensor) -> Tensor:
        return image * helper(image)


def disabled_forward_calls_a_helper() -> object:
    compiled = torch.compile(Disabled(), backend="eager")
    return [compiled(torch.ones(size)) for size in (5, 5, 6)]


def disabled_function_in_a_loop() -> object:
    @torch.compiler.disable(recursive=False)
    def outer(image: Tensor) -> Tensor:
        return helper(image) + 1

    compiled = torch.compile(lambda image: outer(image * 2), backend="eager")
    return [compiled(torch.ones(3)) for _ in range(2)]


def stack() -> list[str]:
    """Return who stands on Python's stack, innermost first, up to the test's own helper."""
    frame, found = sys._getframe(1), []
    while frame is not None and frame.f_code.co_name != "trail":
        found.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
        frame = frame.f_back
    return found


@torch.library.custom_op("compilescope_tests::look_around", mutates_args=())
def look_around(image: Tensor) -> Tensor:
    SEEN.append(stack())
    warnings.warn("who is asked", stacklevel=3)
    return image.clone()


@look_around.register_fake
def _(image: Tensor) -> Tensor:
    return torch.empty_like(image)


SEEN: list[list[str]] = []
"""What the operator saw; each program empties it."""


def operator_looks_at_the_stack() -> object:
    SEEN.clear()
    compiled = torch.compile(lambda image: look_around(image * 2), backend="eager")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(torch.ones(3))
        compiled(torch.ones(4))
    return [SEEN.copy(), [(str(one.message), one.filename, one.lineno) for one in caught]]


def backend_looks_at_the_stack() -> object:
    seen = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        seen.append(stack())
        return graph.forward

    compiled = torch.compile(lambda image, factor: image * factor, backend=backend)
    for factor in (2, 3, 4):
        compiled(torch.ones(3), factor)
    return seen


def function_after_a_break_looks_at_the_stack() -> object:
    seen: list[list[str]] = []

    @torch.compiler.disable
    def look() -> None:
        seen.append(stack())

    def outer(image: Tensor) -> Tensor:
        image = image * 2
        look()
        return image + 1

    compiled = torch.compile(outer, backend="eager")
    compiled(torch.ones(3))
    compiled(torch.ones(3))
    return seen


def gradients_of_a_hook() -> object:
    seen: list[list[str]] = []
    image = torch.ones(3, requires_grad=True)
    image.register_hook(lambda gradient: seen.append(stack()))
    compiled = torch.compile(lambda given: (given * 2).sin(), backend="aot_eager")
    for _ in range(2):
        compiled(image).sum().backward()
    return [seen, image.grad]


# --- programs in which something is raised ----------------------------------------------------------


def raised(call: Callable[..., object], *given: object) -> object:
    """Return what a call returns, or what it raises with the lines that it came through."""
    try:
        return call(*given)
    except Exception as error:  # noqa: BLE001 (whatever is raised is compared)
        step, lines = error.__traceback__, []
        while step is not None:
            lines.append((step.tb_frame.f_code.co_filename, step.tb_frame.f_code.co_name, step.tb_lineno))
            step = step.tb_next
        return [type(error).__name__, str(error), lines, raised_before(error)]


def raised_before(error: BaseException) -> list[str]:
    return [type(one).__name__ for one in (error.__cause__, error.__context__) if one is not None]


def refused_by_a_stance() -> object:
    compiled = torch.compile(lambda image, factor: image * factor, backend="eager", dynamic=False)
    compiled(torch.ones(3), 2.0)
    with torch.compiler.set_stance("fail_on_recompile"):
        return [raised(compiled, torch.ones(size), 2.0) for size in (3, 4, 5)]


def refused_without_guards() -> object:
    compiled = torch.compile(lambda image, factor: image * factor, backend="eager", dynamic=False)
    for size in (3, 4):
        compiled(torch.ones(size), 2.0)
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        return [raised(compiled, torch.ones(size), 2.0) for size in (3, 4, 5)]


def refused_by_a_setting() -> object:
    compiled = torch.compile(lambda image: image * 2, backend="eager", dynamic=False)
    compiled(torch.ones(3))
    with torch._dynamo.config.patch(error_on_recompile=True):
        return raised(compiled, torch.ones(4))


def limit_under_fullgraph() -> object:
    compiled = torch.compile(lambda image: image * 2, backend="eager", dynamic=False, fullgraph=True)
    with torch._dynamo.config.patch(recompile_limit=2):
        return [raised(compiled, torch.ones(size)) for size in (3, 4, 5, 6)]


def break_under_fullgraph() -> object:
    def outer(image: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return image

    compiled = torch.compile(outer, backend="eager", fullgraph=True)
    return [raised(compiled, torch.ones(3)) for _ in range(2)]


def shapes_do_not_fit() -> object:
    compiled = torch.compile(lambda left, right: left + right, backend="eager")
    return [raised(compiled, torch.ones(3), torch.ones(size)) for size in (3, 4)]


def backend_raises() -> object:
    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        msg = "no such backend"
        raise ValueError(msg)

    compiled = torch.compile(lambda image: image * 2, backend=backend)
    return [raised(compiled, torch.ones(3)) for _ in range(2)]


def user_raises_while_traced() -> object:
    def outer(image: Tensor, size: int) -> Tensor:
        if image.shape[0] != size:
            msg = f"wanted {size}"
            raise ValueError(msg)
        return image * 2

    compiled = torch.compile(outer, backend="eager")
    return [raised(compiled, torch.ones(3), size) for size in (4, 3, 3)]


def generator_is_compiled() -> object:
    def halves(image: Tensor) -> Iterator[Tensor]:
        yield image * 0.5

    compiled = torch.compile(halves, backend="eager")
    return [list(compiled(torch.ones(3))) for _ in range(2)]


def generator_under_fullgraph() -> object:
    def halves(image: Tensor) -> Iterator[Tensor]:
        yield image * 0.5

    compiled = torch.compile(halves, backend="eager", fullgraph=True)
    return [raised(lambda: list(compiled(torch.ones(3)))) for _ in range(2)]


# --- programs that pass through much of Dynamo ------------------------------------------------------


def checkpointed_function_breaks() -> object:
    def inner(image: Tensor) -> Tensor:
        image = image.sin()
        torch._dynamo.graph_break()
        return image.cos()

    compiled = torch.compile(lambda image: checkpoint(inner, image * 2, use_reentrant=False) + 1, backend="eager")
    images = [torch.ones(3, requires_grad=True) for _ in range(2)]
    for image in images:
        compiled(image).sum().backward()
    return [image.grad for image in images]


def module_compiles_itself_without_gradients() -> object:
    class Net(nn.Module):
        @torch.no_grad()
        def forward(self, image: Tensor) -> Tensor:
            return image * 2

    net = Net()
    net.compile(backend="eager")
    return [net(torch.ones(size)) for size in (2, 3, 4)]


def stances_in_turn() -> object:
    compiled = torch.compile(lambda image: image * 2, backend="eager", dynamic=False)
    results = [compiled(torch.ones(3))]
    for name in ("force_eager", "eager_on_recompile", "eager_then_compile", "aot_eager_then_compile"):
        with torch.compiler.set_stance(name):
            results += [compiled(torch.ones(size)) for size in (3, 4, 4, 5)]
    return results


PROGRAMS = [
    disabled_forward_calls_a_helper,
    disabled_function_in_a_loop,
    operator_looks_at_the_stack,
    backend_looks_at_the_stack,
    function_after_a_break_looks_at_the_stack,
    gradients_of_a_hook,
    refused_by_a_stance,
    refused_without_guards,
    refused_by_a_setting,
    limit_under_fullgraph,
    break_under_fullgraph,
    shapes_do_not_fit,
    backend_raises,
    user_raises_while_traced,
    generator_is_compiled,
    generator_under_fullgraph,
    checkpointed_function_breaks,
    module_compiles_itself_without_gradients,
    stances_in_turn,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program_that_could_tell_does_not(program: Callable[[], object]) -> None:
    assert_neutral(program)


@pytest.mark.parametrize(
    "program",
    [operator_looks_at_the_stack, backend_looks_at_the_stack, function_after_a_break_looks_at_the_stack],
    ids=lambda program: program.__name__,
)
def test_no_frame_of_compilescope_stands_on_the_stack(program: Callable[[], object]) -> None:
    seen = str(trail(program, observed=True).result)
    assert "compile_wrapper" in seen
    assert OURS not in seen


def test_disabled_forward_is_not_compiled_because_it_is_observed() -> None:
    with compilescope.observe(["Disabled.forward", "helper"], count_runs=True) as scope:
        disabled_forward_calls_a_helper()
    recording = scope.recording
    assert [c.code.rpartition(":")[2] for c in recording.compiled] == ["helper", "helper"]
    assert [(t.selector, t.status) for t in recording.targets] == [
        # Nothing in torch 2.11 says that the frame was left alone.
        ("Disabled.forward", "never_reached" if torch.__version__.startswith("2.11.") else "skipped"),
        ("helper", "compiled"),
    ]
    (fallback,) = recording.fallbacks
    assert (fallback.code.rpartition(":")[2], fallback.calls) == ("Disabled.forward", 3)
    # Nor does it say why.
    assert "disabled" in fallback.detail or torch.__version__.startswith("2.11.")
