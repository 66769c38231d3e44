"""Options of the property test: how many programs, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options. They are known where pytest is given this folder."""
    group = parser.getgroup("property", "programs made at random")
    group.addoption("--programs", type=int, default=100, help="how many programs are made (100)")
    group.addoption("--programs-seed", type=int, default=0, help="which ones: another number, other programs (0)")
