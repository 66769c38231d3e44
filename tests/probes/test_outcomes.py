"""How an attempt to compile ended, and which calls ran eager: told as the user met it."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import compilescope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compilescope.record import Compilation, CompileError, Recording

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
passed_over = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14),
    reason="this torch compiles a decorated forward within a function of its own",
)


def scaler(**settings: Any) -> Callable[..., Tensor]:
    """Return a compiled function with a code object of its own."""

    def scale(image: Tensor, factor: float = 2.0) -> Tensor:
        return image * factor

    return torch.compile(scale, backend="eager", dynamic=False, **settings)


def recorded(program: Callable[[], object], *targets: object) -> Recording:
    with compilescope.observe(list(targets), count_runs=True) as scope:
        program()
    return scope.recording


def missed(compilation: Compilation) -> list[list[tuple[str, str, str]]]:
    """Return source, expected and actual of each failing guard, by entry."""
    assert compilation.recompile is not None
    return [
        [(f.source, f.expected, f.actual) for f in entry.failing if f.consequence_of is None]
        for entry in compilation.recompile.entries
    ]


def fallbacks(recording: Recording) -> list[tuple[str, str, int | None]]:
    return [(f.code.rpartition(":")[2].rpartition(".")[2], f.kind, f.calls) for f in recording.fallbacks]


# --- refused --------------------------------------------------------------------------------------


def test_stance_that_fails_on_a_recompile_refuses_with_the_guards_that_caused_it() -> None:
    compiled = scaler()

    def program() -> None:
        compiled(torch.ones(3))
        with torch.compiler.set_stance("fail_on_recompile"):
            compiled(torch.ones(3))
            with pytest.raises(RuntimeError, match="Detected recompile when"):
                compiled(torch.ones(3, dtype=torch.float64))

    recording = recorded(program)
    first, refused = recording.compilations
    assert (refused.outcome, refused.raised, refused.code) == ("refused", True, first.code)
    assert refused.error is not None
    assert refused.error.kind == "recompile_forbidden"
    assert missed(refused) == [[("image.dtype", "torch.float32", "torch.float64")]]
    assert fallbacks(recording) == []
    assert recording.recompiles == ()


def test_stance_refuses_a_first_compilation_too_and_then_there_is_no_recompile() -> None:
    def program() -> None:
        with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError):
            scaler()(torch.ones(3))

    recording = recorded(program)
    assert [(c.outcome, c.recompile) for c in recording.compilations] == [("refused", None)]
    assert fallbacks(recording) == []


def test_stance_that_skips_guards_refuses_with_the_guards_that_caused_it() -> None:
    compiled = scaler()

    def program() -> None:
        for size in (3, 4):
            compiled(torch.ones(size))
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            compiled(torch.ones(4))
            with pytest.raises(RuntimeError, match="skip_guard_eval_unsafe"):
                compiled(torch.ones(5))

    recording = recorded(program)
    assert [c.outcome for c in recording.compilations] == ["compiled", "compiled", "refused"]
    assert recording.compilations[-1].raised
    assert missed(recording.compilations[-1]) == [[("image.size()[0]", "3", "5")], [("image.size()[0]", "4", "5")]]
    assert fallbacks(recording) == []


def test_stance_that_skips_guards_refuses_a_module_by_its_forward() -> None:
    class Net(nn.Module):
        def forward(self, image: Tensor, factor: float = 1.0) -> Tensor:
            return image * factor

    refused = refused_without_guards(Net())
    assert missed(refused) == [[("image.size()[0]", "3", "5")], [("image.size()[0]", "4", "5")]]


@passed_over
def test_stance_that_skips_guards_refuses_a_decorated_forward_without_guessing_what_it_was_called_in() -> None:
    class Net(nn.Module):
        @torch.no_grad()
        def forward(self, image: Tensor) -> Tensor:
            return image * 2

    assert refused_without_guards(Net()).recompile is None


def refused_without_guards(net: nn.Module) -> Compilation:
    """Return the refusal of a module that was compiled for two sizes and is called with a third."""
    net.compile(backend="eager", dynamic=False)

    def program() -> None:
        for size in (3, 4):
            net(torch.ones(size))
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True), pytest.raises(RuntimeError):
            net(torch.ones(5))

    recording = recorded(program)
    refused = recording.compilations[-1]
    assert (refused.outcome, refused.code.rpartition(".")[2]) == ("refused", "forward")
    assert fallbacks(recording) == []
    return refused


def test_refusal_that_is_handled_is_told_once() -> None:
    compiled = scaler()

    def program() -> None:
        for size in (3, 4):
            compiled(torch.ones(size))
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            try:
                compiled(torch.ones(5))
            except RuntimeError:
                compiled(torch.ones(3))

    assert [c.outcome for c in recorded(program).compilations] == ["compiled", "compiled", "refused"]


def test_resume_function_that_is_refused_is_told_for_what_was_called() -> None:
    def halves(image: Tensor) -> Tensor:
        image = image * 2
        torch._dynamo.graph_break()
        return image[: image.shape[0] // 2] + 1

    compiled = torch.compile(halves, backend="eager", dynamic=False)

    def program() -> None:
        compiled(torch.ones(4))
        with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError):
            compiled(torch.ones(6))

    refused = recorded(program).compilations[-1]
    assert refused.outcome == "refused"
    assert missed(refused) == [[("image.size()[0]", "4", "6")]]


def test_setting_that_forbids_a_recompile_is_a_refusal() -> None:
    compiled = scaler()

    def program() -> None:
        compiled(torch.ones(3))
        with torch._dynamo.config.patch(error_on_recompile=True), pytest.raises(torch._dynamo.exc.RecompileError):
            compiled(torch.ones(4))

    recording = recorded(program)
    refused = recording.compilations[-1]
    assert (refused.outcome, refused.raised) == ("refused", True)
    assert missed(refused) == [[("image.size()[0]", "3", "4")]]
    assert fallbacks(recording) == []


def test_call_that_runs_eager_under_a_stance_that_forbids_a_recompile_is_a_fallback() -> None:
    compiled = scaler()

    def program() -> None:
        with torch._dynamo.config.patch(recompile_limit=1):
            compiled(torch.ones(3))
            compiled(torch.ones(4))
            with torch.compiler.set_stance("fail_on_recompile"):
                compiled(torch.ones(5))

    recording = recorded(program)
    assert [c.outcome for c in recording.compilations] == ["compiled", "limit"]
    assert fallbacks(recording) == [("scale", "recompile_limit", 1), ("scale", "stance", 1)]


@pytest.mark.parametrize("fullgraph", [False, True], ids=["partial graphs", "fullgraph"])
def test_limit_says_what_would_have_caused_the_recompile_and_whether_it_raised(fullgraph: bool) -> None:  # noqa: FBT001
    compiled = scaler(fullgraph=fullgraph)

    def program() -> None:
        with torch._dynamo.config.patch(recompile_limit=1):
            compiled(torch.ones(3))
            try:
                compiled(torch.ones(4))
            except torch._dynamo.exc.FailOnRecompileLimitHit:
                assert fullgraph

    recording = recorded(program)
    hit = recording.compilations[-1]
    assert (hit.outcome, hit.raised) == ("limit", fullgraph)
    assert missed(hit) == [[("image.size()[0]", "3", "4")]]
    assert hit.error is not None
    assert (hit.error.kind, "recompile limit exceeded" in hit.error.message) == ("recompile_limit", True)
    assert fallbacks(recording) == ([] if fullgraph else [("scale", "recompile_limit", 1)])


# --- calls that did not run eager -------------------------------------------------------------------


def test_module_with_a_call_of_its_own_runs_its_graph() -> None:
    class Net(nn.Module):
        def __call__(self, image: Tensor) -> Tensor:
            return super().__call__(image * 2)

        def forward(self, image: Tensor) -> Tensor:
            return image + 1

    def program() -> None:
        compiled = torch.compile(Net(), backend="eager")
        for _ in range(3):
            compiled(torch.ones(3))

    recording = recorded(program)
    assert [c.outcome for c in recording.compilations] == ["compiled"]
    assert fallbacks(recording) == []


def compiled_graph_module() -> Callable[..., Any]:
    return torch.compile(torch.fx.symbolic_trace(nn.Linear(2, 2)), backend="eager")


def graph_module_that_compiles_itself() -> Callable[..., Any]:
    module = torch.fx.symbolic_trace(nn.Linear(2, 2))
    module.compile(backend="eager")
    return module


def compiled_export() -> Callable[..., Any]:
    return torch.compile(torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),)).module(), backend="eager")


@pytest.mark.parametrize(
    "make", [compiled_graph_module, graph_module_that_compiles_itself, compiled_export], ids=lambda make: make.__name__
)
def test_graph_module_runs_its_graph(make: Callable[[], Callable[..., Any]]) -> None:
    module = make()

    def program() -> None:
        module(torch.ones(1, 2))
        module(torch.ones(1, 2))

    assert fallbacks(recorded(program)) == []

    def eager() -> None:
        with torch.compiler.set_stance("force_eager"):
            module(torch.ones(1, 2))

    assert [(kind, calls) for _, kind, calls in fallbacks(recorded(eager))] == [("stance", 1)]


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_decorated_forward_of_a_module_that_compiles_itself_runs_its_graph(without: Callable[[], Any]) -> None:
    class Net(nn.Module):
        @without()
        def forward(self, image: Tensor) -> Tensor:
            return image + 1

    def program() -> None:
        net = Net()
        net.compile(backend="eager")
        for size in (2, 2, 3):
            net(torch.ones(size))

    recording = recorded(program)
    assert [c.outcome for c in recording.compilations] == ["compiled", "compiled"]
    assert fallbacks(recording) == []


@passed_over
def test_two_decorated_forwards_are_counted_apart() -> None:
    class Net(nn.Module):
        @torch.no_grad()
        def forward(self, image: Tensor) -> Tensor:
            return image + 1

    class Broken(nn.Module):
        @torch.no_grad()
        def forward(self, image: Tensor) -> Tensor:
            torch._dynamo.skip_frame()
            return image + 1

    def program() -> None:
        for net in (Net(), Broken()):
            net.compile(backend="eager")
            for _ in range(3):
                net(torch.ones(2))

    recording = recorded(program)
    (fallback,) = recording.fallbacks
    assert (fallback.code.rpartition(".<locals>.")[2], fallback.calls) == ("Broken.forward", 3)


def test_generators_of_the_standard_library_are_no_fallback() -> None:
    def outer(image: Tensor) -> Tensor:
        image = image * 2
        torch._dynamo.graph_break()
        # Python evaluates the subscript in generator expressions of its own.
        made = typing.Dict[str, typing.List[typing.TypeVar("T")]]  # type: ignore[misc, valid-type] # noqa: UP006
        torch._dynamo.graph_break()
        return image + len(made.__parameters__)

    recording = recorded(lambda: torch.compile(outer, backend="eager")(torch.ones(3)))
    assert fallbacks(recording) == []


def test_generator_of_the_user_s_is_a_fallback() -> None:
    def halves(image: Tensor) -> Iterator[Tensor]:
        yield image / 2

    recording = recorded(lambda: list(torch.compile(halves, backend="eager")(torch.ones(3))), "*halves")
    assert fallbacks(recording) == [("halves", "unsupported", 1)]
    assert [t.status for t in recording.targets] == ["skipped"]


# --- calls that did -------------------------------------------------------------------------------


def inner(image: Tensor) -> Tensor:
    image = image.sin()
    torch._dynamo.graph_break()
    return inner_most(image)


def inner_most(image: Tensor) -> Tensor:
    return image.cos()


def test_function_that_breaks_inside_checkpoint_runs_eager() -> None:
    def outer(image: Tensor) -> Tensor:
        return checkpoint(inner, image * 2, use_reentrant=False) + 1

    def program() -> None:
        compiled = torch.compile(outer, backend="eager")
        for _ in range(2):
            compiled(torch.ones(3, requires_grad=True)).sum().backward()

    recording = recorded(program, inner)
    assert fallbacks(recording) == [("inner", "skipped_frame", None)]
    assert [(t.selector, t.status) for t in recording.targets] == [("inner", "skipped")]
    assert [b.function for b in recording.graph_breaks] == ["inner"]


def test_function_that_breaks_where_dynamo_looks_is_compiled_by_itself() -> None:
    def outer(image: Tensor) -> Tensor:
        return inner(image * 2) + 1

    recording = recorded(lambda: torch.compile(outer, backend="eager")(torch.ones(3)), inner, inner_most)
    assert fallbacks(recording) == []
    assert [(t.selector, t.status) for t in recording.targets] == [("inner", "compiled"), ("inner_most", "inlined")]


def test_function_without_tensors_that_breaks_is_no_fallback() -> None:
    def note(text: str) -> None:
        print(end=text)  # noqa: T201 (what breaks)

    def outer(image: Tensor) -> Tensor:
        image = image * 2
        note("")
        return image + 1

    assert fallbacks(recorded(lambda: torch.compile(outer, backend="eager")(torch.ones(3)))) == []


# --- errors ---------------------------------------------------------------------------------------


def error_of(function: Callable[..., Any], *inputs: Any, fullgraph: bool = True) -> CompileError:
    def program() -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011 (which one is told by its kind)
            torch.compile(function, backend="eager", fullgraph=fullgraph)(*inputs)

    recording = recorded(program)
    (compilation,) = recording.compilations
    assert (compilation.outcome, compilation.raised) == ("failed", True)
    assert compilation.error is not None
    return compilation.error


def line_of(function: Callable[..., Any], mark: str) -> int:
    import inspect

    lines, first = inspect.getsourcelines(function)
    return next(first + number for number, line in enumerate(lines) if mark in line)


@torch.library.custom_op("compilescope_tests::shifted", mutates_args=())
def shifted(image: Tensor) -> Tensor:
    return image.roll(1)


def calls_an_operator_without_fake(image: Tensor) -> Tensor:
    image = image * 2
    return shifted(image)  # here


def test_operator_that_fails_with_fake_tensors_is_told_at_the_user_s_line() -> None:
    error = error_of(calls_an_operator_without_fake, torch.ones(3), fullgraph=False)
    assert error.kind in {"fake_tensor_error", "no_fake_kernel"}
    assert error.where is not None
    assert error.where.file.endswith("test_outcomes.py")
    assert error.where.line == line_of(calls_an_operator_without_fake, "# here")


def adds_what_does_not_fit(left: Tensor, right: Tensor) -> Tensor:
    return torch.nn.functional.linear(left, right)  # here


def test_shapes_that_do_not_fit_are_told_at_the_user_s_line() -> None:
    error = error_of(adds_what_does_not_fit, torch.ones(2, 3), torch.ones(2, 4))
    assert error.kind == "fake_tensor_error"
    assert error.where is not None
    assert error.where.line == line_of(adds_what_does_not_fit, "# here")


def multiplies_tables(image: Any) -> Any:
    return np.dot(image, np.ones((5, 5)))  # here


def test_numpy_call_that_fails_is_told_as_numpy_s() -> None:
    assert error_of(multiplies_tables, np.ones((3, 3))).kind == "numpy_error"


def raises(image: Tensor) -> Tensor:
    msg = "the user's own"
    raise LookupError(msg)


def test_exception_of_the_user_s_is_told_as_such() -> None:
    assert error_of(raises, torch.ones(3)).kind == "user_exception"


def uses_no_kernel(image: Tensor) -> Tensor:
    return torch.ops.compilescope_tests.kernel_less(image)


def test_operator_that_has_no_fake_kernel_is_told_as_such() -> None:
    with torch.library._scoped_library("compilescope_tests", "FRAGMENT") as library:
        library.define("kernel_less(Tensor image) -> Tensor")
        library.impl("kernel_less", lambda image: image.clone(), "CPU")
        assert error_of(uses_no_kernel, torch.ones(3)).kind == "no_fake_kernel"
