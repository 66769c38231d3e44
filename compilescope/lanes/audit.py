"""Asks pytest itself what each lane selects, and what is left over."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from compilescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COLLECTOR: Final = "compilescope.lanes.collector"
_FILE, _LANE = "--compilescope-lanes-file", "--compilescope-lane"
_FINE: Final = (0, 5)
"""Pytest's exit codes where it collected without an error; 5 is where nothing was left to run."""
_TOLD: Final = 25
"""Last lines of pytest's output that an error quotes."""


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


class _Told(msgspec.Struct):
    """What the collector writes."""

    collected: dict[str, tuple[str, ...]]
    lanes: dict[str, frozenset[str]]


def audit(lanes: Sequence[str], arguments: Sequence[str]) -> Audit:
    """Let pytest collect once, and select for each lane.

    Args:
        lanes: mark expressions, as ``pytest -m`` takes them.
        arguments: further arguments of pytest, such as the folder of the tests.

    Raises:
        UsageError: pytest cannot collect, or collects nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "collected.json"
        ended = _run(file, lanes, arguments)
        if ended.returncode not in _FINE or not file.exists():
            # Wrong usage is told on stderr, errors of collection at the end of stdout.
            lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-_TOLD:]
            said = "\n".join(lines) or "It said nothing."
            msg = f"pytest could not collect (exit code {ended.returncode}):\n{said}"
            raise UsageError(msg)
        told = msgspec.json.decode(file.read_bytes(), type=_Told)
    if not told.collected:
        msg = f"pytest {' '.join(arguments)} collects no test at all, so no lane could miss one."
        raise UsageError(msg)
    return Audit(collected=told.collected, lanes=told.lanes)


def _run(file: Path, lanes: Sequence[str], arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    asked = [f"{_LANE}={lane}" for lane in lanes]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", _COLLECTOR, f"{_FILE}={file}", *asked]
    # The last -m is the one that counts: the project's own in addopts must hide nothing here.
    return subprocess.run(  # noqa: S603 (pytest, with the arguments that the user typed)
        [*command, *arguments, "-m", ""],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
