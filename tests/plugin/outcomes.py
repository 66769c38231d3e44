"""Runs pytest in a process of its own and reads what became of every test."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# A plugin of the inner run: writes every report down, as text on a terminal is for people.
RECORDER = """
import json, pathlib
import pytest

REPORTS = []

def pytest_runtest_logreport(report):
    REPORTS.append({
        "test": report.nodeid, "when": report.when, "outcome": report.outcome,
        "xfail": getattr(report, "wasxfail", None), "text": str(report.longrepr or ""),
        "sections": [list(section) for section in report.sections],
    })

def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        pathlib.Path("reports.json").write_text(json.dumps(REPORTS))
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one test, in its worst phase.

    Attributes:
        status: passed, failed, error, skipped or xfailed.
        text: why.
        sections: what stands below it, by title.
    """

    status: str
    text: str
    sections: dict[str, str]


@dataclass(frozen=True)
class Session:
    """A whole run."""

    code: int
    output: str
    tests: dict[str, Outcome]


def run_pytest(folder: Path, *arguments: str) -> Session:
    """Run pytest in ``folder``, without the plugins that would change the order of tests or write there."""
    (folder / "recorder.py").write_text(RECORDER, encoding="utf-8")
    plain = ("-p", "no:cacheprovider", "-p", "recorder", "-p", "no:randomly")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=_environment(folder),
    )
    written = folder / "reports.json"
    reports = json.loads(written.read_text(encoding="utf-8")) if written.exists() else []
    return Session(done.returncode, done.stdout + done.stderr, _outcomes(reports))


def _environment(folder: Path) -> dict[str, str]:
    import os

    # Whoever tests another checkout than the installed one names it there.
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _outcomes(reports: list[dict[str, object]]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for report in reports:
        status = str(report["outcome"])
        if report["xfail"] is not None and status == "skipped":
            status = "xfailed"
        if status == "failed" and report["when"] != "call":
            status = "error"
        file, _, test = str(report["test"]).partition("::")
        folder, _, module = file.rpartition("/")
        name = f"{file}::{test}" if folder or module == "test_others.py" else test
        if name not in found or status != "passed":
            found[name] = Outcome(status, str(report["text"]), dict(report["sections"]))
    return found
