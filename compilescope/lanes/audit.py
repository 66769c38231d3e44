"""Asks pytest itself what each lane selects, and what is left over."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compilescope.errors import UsageError
from compilescope.lanes import collector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NOTHING_SELECTED: Final = 5
"""Pytest's exit code where it collected without an error and nothing was left to run."""
_TOLD: Final = 25
"""Last lines of pytest's output that an error quotes."""
_EVERYTHING: Final = ""
"""The mark expression that selects all; it takes the place of one in the project's ``addopts``."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What the lanes leave over.

    Attributes:
        collected: every test with its marks, in pytest's order.
        lanes: each expression with the tests that it selects.
    """

    collected: Mapping[str, tuple[str, ...]]
    lanes: Mapping[str, frozenset[str]]

    @property
    def unselected(self) -> tuple[str, ...]:
        """The tests that no lane selects."""
        selected = frozenset().union(*self.lanes.values())
        return tuple(test for test in self.collected if test not in selected)

    @property
    def empty(self) -> tuple[str, ...]:
        """The lanes that select no test at all: a misspelt mark, most likely."""
        return tuple(lane for lane, tests in self.lanes.items() if not tests)


def audit(lanes: Sequence[str], arguments: Sequence[str]) -> Audit:
    """Collect once without a mark expression, and once for each lane.

    Args:
        lanes: mark expressions, as ``pytest -m`` takes them.
        arguments: further arguments of pytest, such as the folder of the tests.

    Raises:
        UsageError: pytest cannot collect, or collects nothing.
    """
    collected = _collect(_EVERYTHING, arguments)
    if not collected:
        msg = f"pytest {' '.join(arguments)} collects no test at all, so no lane could miss one."
        raise UsageError(msg)
    return Audit(
        collected={test: tuple(marks) for test, marks in collected.items()},
        lanes={lane: frozenset(_collect(lane, arguments)) for lane in lanes},
    )


def _collect(expression: str, arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return what ``pytest -m expression`` selects, by a process of its own: collecting imports the tests."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "collected.json"
        plugin = ("-p", collector.__name__, f"{collector.OPTION}={file}")
        command = (sys.executable, "-m", "pytest", "--collect-only", "-q", *plugin, *arguments, "-m", expression)
        ended = subprocess.run(  # noqa: S603 (pytest, with the arguments that the user typed)
            command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
        )
        if ended.returncode not in (0, _NOTHING_SELECTED) or not file.exists():
            # Wrong usage is told on stderr, errors of collection at the end of stdout.
            told = "\n".join((ended.stderr.strip() or ended.stdout.strip()).splitlines()[-_TOLD:]) or "It said nothing."
            lane = f" for the lane {expression!r}" if expression else ""
            msg = f"pytest could not collect{lane} (exit code {ended.returncode}):\n{told}"
            raise UsageError(msg)
        found: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
        return found
