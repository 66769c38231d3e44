"""A small project whose lanes are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    Lanes = Callable[..., Result]

TESTS = """
import pytest

@pytest.mark.core_model
@pytest.mark.cuda
def test_kernel(): ...

@pytest.mark.core_model
@pytest.mark.cpu
def test_shapes(): ...

@pytest.mark.core_model
def test_parity(): ...

@pytest.mark.parametrize("length", [0, 4, 77])
def test_lengths(length): ...
"""
INI = "[pytest]\nmarkers =\n  core_model\n  cuda\n  cpu\n  slow\n"
