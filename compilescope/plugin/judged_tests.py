"""Which tests of a session were judged: only if all were, is an unused baseline entry certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Census(msgspec.Struct):
    """The tests that are ours, of this process or of all workers.

    Attributes:
        expected: node ids of those that were collected.
        judged: node ids of those that ran and were recorded completely.
        partial: whether there are others: deselected, in a file that could not be collected, or never begun.
    """

    expected: set[str] = msgspec.field(default_factory=set)
    judged: set[str] = msgspec.field(default_factory=set)
    partial: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every test was judged."""
        return not self.partial and bool(self.judged) and self.expected <= self.judged

    def add(self, other: Census) -> None:
        """Add the counts of a worker; each worker collects all tests."""
        self.expected |= other.expected
        self.judged |= other.judged
        self.partial |= other.partial


def asks_for_all(config: pytest.Config) -> bool:
    """Whether the command line asks for the whole suite, as far as it shows."""
    if config.getoption("lf", default=False) or config.getoption("ignore") or config.getoption("ignore_glob"):
        return False
    if config.args_source is config.ArgsSource.TESTPATHS:
        return True
    named = [config.invocation_params.dir / argument for argument in config.args]
    return all(any(home.is_relative_to(path) for path in named) for home in _homes(config))


def _homes(config: pytest.Config) -> list[Path]:
    """Return where the project has its tests."""
    written = [path for pattern in config.getini("testpaths") for path in config.rootpath.glob(pattern)]
    return written or [config.rootpath]
