"""Tests as users write them, each of which passes or fails in its own way; ``test_scenarios.py`` says how."""

import logging
import unittest
from collections.abc import Iterator

import pytest
import subject
import torch
from torch import nn
from torch.fx.experimental import _config as shape_config

from compilescope.testing import Watch

dynamo_config = torch._dynamo.config
LIMIT = dynamo_config.recompile_limit


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu()


class Other(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).sin()


def scaled(x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
    return x * by + 1


def compiled(cls: type[nn.Module] = Block, *, dynamic: bool | None = True) -> nn.Module:
    model = cls()
    model.compile(backend="eager", dynamic=dynamic)
    return model


def call(model: nn.Module, *lengths: int) -> None:
    for length in lengths:
        model(torch.ones(length, 8))


INSTANCE = Block()


# --- tests that never run --------------------------------------------------------------------------


@pytest.fixture
def skipping() -> None:
    pytest.skip("nothing here")


@pytest.fixture
def expected_to_fail() -> None:
    pytest.xfail("known")


@pytest.fixture
def failing() -> None:
    msg = "no device"
    raise RuntimeError(msg)


@pytest.mark.no_shape_recompile(targets=Block)
def test_fixture_skips(skipping: None) -> None: ...


@pytest.mark.no_shape_recompile(targets=Block)
def test_fixture_is_expected_to_fail(expected_to_fail: None) -> None: ...


@pytest.mark.no_shape_recompile(targets=Block)
def test_fixture_fails(failing: None) -> None: ...


class TestWhoseSetupSkips:
    def setup_method(self) -> None:
        pytest.skip("nothing here")

    @pytest.mark.no_shape_recompile(targets=Block)
    def test_never_runs(self) -> None: ...


# --- no_shape_recompile ---------------------------------------------------------------------------


@pytest.mark.no_shape_recompile(targets=Block)
def test_general_shapes() -> None:
    call(compiled(), 4, 5, 7)


def test_marked_by_a_late_hook() -> None:
    call(compiled(dynamic=False), 4, 5)


class Child(Block):
    pass


class Grandchild(Child):
    pass


@pytest.mark.no_shape_recompile(targets=Child)
def test_parent_alone_is_compiled() -> None:
    call(compiled(Block), 4, 5)


@pytest.mark.no_shape_recompile(targets=Child)
def test_child_with_its_parent_s_forward_is_compiled() -> None:
    call(compiled(Child), 4, 5)


@pytest.mark.no_shape_recompile(targets=Child)
def test_grandchild_is_a_child() -> None:
    call(compiled(Grandchild), 4, 5)


@pytest.mark.no_shape_recompile(targets=Block)
def test_cache_is_emptied_between_the_shapes() -> None:
    for length in (4, 5):
        call(compiled(dynamic=False), length)
        torch._dynamo.reset()


@pytest.mark.no_shape_recompile(targets=Block)
def test_explained_between_the_shapes() -> None:
    for length in (4, 5):
        call(compiled(dynamic=False), length)
        torch._dynamo.explain(scaled)(torch.ones(length))


def test_nothing_is_called_after_freeze(compilescope: Watch) -> None:
    with compilescope.warmup():
        call(compiled(), 4, 5)


def test_eager_after_freeze(compilescope: Watch) -> None:
    model = compiled()
    with compilescope.warmup():
        call(model, 4)
    with torch.compiler.set_stance("force_eager"):
        call(model, 5)


def sines(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x.sin()


def test_generator_within_after_freeze(compilescope: Watch) -> None:
    inner = {"function": iter}

    @torch.compiler.disable(recursive=False)
    def within(x: torch.Tensor) -> torch.Tensor:
        return next(inner["function"](x))

    model = torch.compile(lambda x: within(x * 2) + 1, backend="eager")
    with compilescope.warmup():
        model(torch.ones(3, 3))
    inner["function"] = sines
    model(torch.ones(3, 3))


def test_limit_met_in_the_warmup(compilescope: Watch) -> None:
    model = compiled(dynamic=False)
    with compilescope.warmup():
        call(model, *range(2, LIMIT + 4))
    call(model, LIMIT + 9)


@pytest.mark.no_shape_recompile("Block.forward", "Other.forward")
def test_two_patterns() -> None:
    call(compiled(), 4, 5)
    call(compiled(Other), 4, 5)


@pytest.mark.no_shape_recompile(targets=[INSTANCE, Block.forward])
def test_instance_and_method() -> None:
    INSTANCE.compile(backend="eager", dynamic=True)
    call(INSTANCE, 4, 5)


@pytest.mark.no_shape_recompile(targets=scaled)
def test_function() -> None:
    compiled_function = torch.compile(scaled, backend="eager", dynamic=True)
    compiled_function(torch.ones(3))
    compiled_function(torch.ones(4))


class WithoutGradients(Block):
    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


@pytest.mark.no_shape_recompile(targets=WithoutGradients)
def test_forward_without_gradients() -> None:
    block = WithoutGradients()
    block.compile(backend="eager", dynamic=True)
    call(block, 4, 5)


@pytest.mark.no_shape_recompile(targets=scaled)
def test_one_size_alone() -> None:
    torch.compile(scaled, backend="eager", dynamic=True)(torch.ones(3))


@pytest.mark.no_shape_recompile(targets=Block)
def test_static_shapes() -> None:
    logging.getLogger("app").warning("from the test itself")
    call(compiled(dynamic=False), 4, 5, 7)


@pytest.mark.no_shape_recompile(targets=Block)
def test_nothing_compiled() -> None:
    call(Block(), 4, 5)


@pytest.mark.no_shape_recompile(targets=Block)
def test_something_else_compiled() -> None:
    call(compiled(Other), 4, 5)


@pytest.mark.no_shape_recompile(targets=Block)
def test_forced_eager() -> None:
    model = compiled()
    call(model, 4)
    with torch.compiler.set_stance("force_eager"):
        call(model, 5)


@pytest.mark.no_shape_recompile(targets=Block, allow_fallbacks="stance")
def test_forced_eager_allowed() -> None:
    model = compiled()
    call(model, 4)
    with torch.compiler.set_stance("force_eager"):
        call(model, 5)


@pytest.mark.no_shape_recompile(targets=Block)
class TestOfClass:
    def test_is_held_to_its_marks(self) -> None:
        call(Block(), 4)


class UnitTest(unittest.TestCase):
    @pytest.mark.no_shape_recompile("Block.forward")
    def test_green(self) -> None:
        call(compiled(), 4, 5)

    @pytest.mark.no_shape_recompile("Block.forward")
    def test_red(self) -> None:
        call(Block(), 4)


@pytest.mark.parametrize("length", [4, pytest.param(5, marks=pytest.mark.no_shape_recompile("Block.forward"))])
def test_one_variant_marked(length: int) -> None:
    call(Block(), length)


# --- compile_budget and max_graph_breaks ----------------------------------------------------------


@pytest.mark.compile_budget(scaled, compiles=2, kinds={"python_float": 1})
def test_kind_within_budget() -> None:
    function = torch.compile(scaled, backend="eager", dynamic=False)
    function(torch.ones(3), 2.0)
    function(torch.ones(3), 3.0)


@pytest.mark.compile_budget(scaled, kinds={"python_float": 1})
def test_kind_not_in_budget() -> None:
    function = torch.compile(scaled, backend="eager", dynamic=False)
    function(torch.ones(3))
    function(torch.ones(3, dtype=torch.float64))


@pytest.mark.compile_budget(guards=0)
def test_too_many_guards() -> None:
    call(compiled(), 4)


@pytest.mark.max_graph_breaks(0, targets=subject.Block)
def test_graph_break() -> None:
    subject.subject.build({})(2, 4)


@pytest.mark.max_graph_breaks(1)
def test_graph_break_allowed() -> None:
    subject.subject.build({})(2, 4)


@pytest.mark.no_shape_recompile(targets=subject.Block)
@pytest.mark.max_graph_breaks(0)
def test_agrees_with_check() -> None:
    run = subject.subject.build({})
    for batch in subject.BATCHES:
        for tokens in subject.LENGTHS:
            run(batch, tokens)


# --- broken ---------------------------------------------------------------------------------------


@pytest.mark.no_shape_recompile(targets=Block, broken="shapes are static still")
def test_broken() -> None:
    call(compiled(dynamic=False), 4, 5)


@pytest.mark.no_shape_recompile(targets=Block, broken="shapes are static still")
def test_mended() -> None:
    call(compiled(), 4, 5)


@pytest.mark.no_shape_recompile(targets=Block, broken="shapes are static still")
def test_broken_and_nothing_compiled() -> None:
    call(Block(), 4, 5)


@pytest.mark.xfail(reason="known", strict=True)
@pytest.mark.no_shape_recompile(targets=Block)
def test_plain_xfail() -> None:
    call(compiled(dynamic=False), 4, 5)


@pytest.mark.no_shape_recompile(targets=Block)
def test_own_failure() -> None:
    call(compiled(), 4)
    raise AssertionError


@pytest.mark.no_shape_recompile(targets=Block)
def test_skipped() -> None:
    pytest.skip("not here")


# --- the fixture ----------------------------------------------------------------------------------


def test_frozen(compilescope: Watch) -> None:
    model = compiled()
    with compilescope.warmup():
        call(model, 4)
    call(model, 5, 6)
    assert len(compilescope.recording.compiled) == 1


def test_compiles_after_freeze(compilescope: Watch) -> None:
    model = compiled(dynamic=False)
    call(model, 4)
    compilescope.freeze()
    call(model, 5)


def test_cold_freeze(compilescope: Watch) -> None:
    compilescope.freeze()


def test_fixture_asked_for_late(request: pytest.FixtureRequest) -> None:
    watch = request.getfixturevalue("compilescope")
    model = compiled(dynamic=False)
    with watch.warmup():
        call(model, 4)
    call(model, 5)


def test_fixture_alone(compilescope: Watch) -> None:
    with compilescope.at({"length": 4}):
        call(compiled(), 4)
    assert [one.point for one in compilescope.recording.compiled] == [{"length": 4}]


@pytest.fixture
def warm() -> nn.Module:
    model = compiled()
    call(model, 4)
    return model


@pytest.mark.compile_budget(targets=Block, compiles=0)
def test_counts_what_its_fixtures_compile(warm: nn.Module) -> None:
    call(warm, 5)


# --- isolation ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def setting() -> Iterator[nn.Module]:
    before = shape_config.use_duck_shape
    shape_config.use_duck_shape = False
    yield compiled()
    assert shape_config.use_duck_shape is False
    shape_config.use_duck_shape = before


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.compile_budget(Block, compiles=1)
def test_isolated(setting: nn.Module, turn: int) -> None:
    assert dynamo_config.recompile_limit == LIMIT
    assert shape_config.use_duck_shape is False
    dynamo_config.recompile_limit = LIMIT + turn
    shape_config.use_duck_shape = True
    call(setting, 4)


# --- tests that run again when they fail: conftest.py does it for these ----------------------------

TURNS: list[int] = []


@pytest.mark.no_shape_recompile(targets=Block)
def test_flaky() -> None:
    TURNS.append(1)
    call(compiled(dynamic=len(TURNS) > 1), 4, 5)


@pytest.mark.no_shape_recompile(targets=Block)
def test_flaky_in_vain() -> None:
    call(compiled(dynamic=False), 4, 5)


# --- marks that are wrong -------------------------------------------------------------------------


@pytest.mark.compile_budget(Block, compile=3)
def test_unknown_argument() -> None: ...


@pytest.mark.compile_budget(len, compiles=1)
def test_target_without_code() -> None: ...


@pytest.fixture
def marker(request: pytest.FixtureRequest) -> None:
    request.applymarker(pytest.mark.no_shape_recompile("Block.forward"))


@pytest.mark.usefixtures("marker")
def test_marked_too_late() -> None:
    call(Block(), 4)
