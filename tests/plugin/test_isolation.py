"""What keeps a test from what others compiled and set, in this process."""

from __future__ import annotations

import pytest

from compilescope import observe
from compilescope.plugin.fixture import watching
from compilescope.plugin.isolation import isolated, start_over

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def test_recorded_test_begins_with_an_empty_cache() -> None:
    import torch

    compiled = torch.compile(lambda x: x + 1, backend="eager")
    compiled(torch.ones(3))
    with watching(()) as watch:
        compiled(torch.ones(3))
    assert len(watch.recording.compiled) == 1


def test_isolated_test_begins_with_an_empty_cache_and_leaves_one() -> None:
    import torch

    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with observe() as scope:
        compiled(torch.ones(3))
        with isolated():
            compiled(torch.ones(3))
        compiled(torch.ones(3))
    assert [one.recompile for one in scope.recording.compiled] == [None] * 3


def test_isolated_test_leaves_the_settings_as_it_found_them() -> None:
    import torch
    from torch.fx.experimental import _config as shapes

    torch._dynamo.config.recompile_limit = 5
    with isolated():
        assert torch._dynamo.config.recompile_limit == 5
        torch._dynamo.config.recompile_limit = 3
        shapes.use_duck_shape = not shapes.use_duck_shape
        duck = shapes.use_duck_shape
    assert torch._dynamo.config.recompile_limit == 5
    assert shapes.use_duck_shape is not duck


def test_torch_that_a_test_was_first_to_import_keeps_nothing_of_it() -> None:
    import torch

    compiled = torch.compile(lambda x: x + 1, backend="eager")
    compiled(torch.ones(3))
    torch._dynamo.config.recompile_limit = 3
    start_over()
    assert torch._dynamo.config.recompile_limit == 8
    with observe() as scope:
        compiled(torch.ones(3))
    assert len(scope.recording.compiled) == 1
