"""Asks pytest what a lane collects and selects."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from compilescope.errors import UsageError

if TYPE_CHECKING:
    from compilescope.lanes.lane import Lane

_COLLECTOR: Final = "compilescope.lanes.collector"
_FILE, _BASE = "--compilescope-lanes-file", "--compilescope-lanes-base"
_FINE: Final = (0, 5)
"""Pytest's exit codes for a collection without errors; 5 means that nothing is left to run."""
_TOLD: Final = 25
"""Last lines of pytest's output that an error quotes."""


class Told(msgspec.Struct, frozen=True):
    """What pytest collected for one lane.

    Attributes:
        collected: every collected test with its marks, in pytest's order, before any is deselected.
        selected: the tests that are left to run.
        skipped: those of them whose marks skip them on this machine, each with the reason.
        ignored: test files that it skipped.
        skipping: files that skip themselves while they are imported, each with the reason.
    """

    collected: dict[str, tuple[str, ...]]
    selected: frozenset[str]
    skipped: dict[str, str]
    ignored: list[str]
    skipping: dict[str, str]


def ask(lane: Lane, base: Path) -> Told:
    """Let pytest collect for one lane. Nothing is run.

    Every lane has its own process: its conftests may read any option and variable.

    Args:
        lane: the lane.
        base: the folder that the names of tests and files are relative to.

    Raises:
        UsageError: pytest cannot collect.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "collected.json"
        ended = _run(lane, file, base)
        if ended.returncode not in _FINE or not file.exists():
            # Pytest prints usage errors on stderr, and collection errors at the end of stdout.
            lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-_TOLD:]
            said = "\n".join(lines) or "It said nothing."
            msg = f"pytest could not collect (exit code {ended.returncode}):\n{said}"
            raise UsageError(msg)
        return msgspec.json.decode(file.read_bytes(), type=Told)


def _run(lane: Lane, file: Path, base: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", _COLLECTOR]
    return subprocess.run(  # noqa: S603 (pytest, with the arguments that the user or their CI gives it)
        [*command, f"{_FILE}={file}", f"{_BASE}={base}", *lane.arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=lane.folder,
        env=_environment(lane),
    )


def _environment(lane: Lane) -> dict[str, str]:
    """Return the environment of a lane's process.

    Sets have the same order in all lanes, so that tests parametrized from a set have the same names; and a lane's own
    PYTHONPATH must not hide the collector from pytest.
    """
    variables = {"PYTHONHASHSEED": "0", **os.environ, **lane.environment}
    paths = [places.get("PYTHONPATH") for places in (lane.environment, os.environ)]
    if any(paths):
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return variables
