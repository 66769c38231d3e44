"""A lane: one run of pytest in CI."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Lane:
    """One run of pytest.

    Attributes:
        name: its name in the report: its mark expression or its command.
        arguments: of pytest.
        folder: where it runs.
        environment: variables that are set for it, in addition to those of this process.
        source: its place in a CI file; empty for a lane that the user typed.
    """

    name: str
    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    source: str = ""

    @property
    def title(self) -> str:
        """The name with the source."""
        return _title(self.name, self.source)


@dataclass(frozen=True, slots=True)
class Unread:
    """A lane that could not be read.

    Attributes:
        name: its name in the report.
        why: the reason, a clause.
        source: its place in a CI file.
    """

    name: str
    why: str
    source: str

    @property
    def title(self) -> str:
        """The name with the source."""
        return _title(self.name, self.source)


def _title(name: str, source: str) -> str:
    return f"{name} ({source})" if source else name


def marked(expression: str, arguments: tuple[str, ...], folder: Path) -> Lane:
    """Return the lane of a mark expression.

    Args:
        expression: as ``pytest -m`` takes it.
        arguments: further arguments of pytest, such as the folder of the tests.
        folder: where pytest runs.
    """
    # The last -m counts: it overrides the project's own in addopts.
    return Lane(repr(expression), (*arguments, "-m", expression), folder)
