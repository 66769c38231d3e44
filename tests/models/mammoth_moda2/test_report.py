"""The example's reports say what was found on the real system, each run as its docstring says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "mammoth_moda2.py"
COMMANDS = re.findall(r"^    (compilescope report .*)$", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)


DOCUMENT = (ROOT / "docs" / "models.md").read_text(encoding="utf-8").partition("## MammothModa2's transformer")[2]


def report(command: str) -> dict[str, Any]:
    """Run a command of the example's docstring and return its recording."""
    arguments = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "compilescope", *arguments, "--format", "json", "--quiet"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    recording: dict[str, Any] = json.loads(done.stdout)
    return recording


def recompiles(recording: dict[str, Any]) -> list[dict[str, Any]]:
    return [one["recompile"] for one in recording["compilations"] if one["recompile"] is not None]


def test_there_is_a_command_for_every_finding() -> None:
    assert len(COMMANDS) == 3


def test_one_recompile_by_the_class_of_the_first_norm() -> None:
    recording = report(COMMANDS[0])
    assert [target["compiles"] for target in recording["targets"]] == [2]
    assert not recording["graph_breaks"]
    assert not recording["fallbacks"]
    (only,) = recompiles(recording)
    first = only["causes"][0]
    assert (first["kind"], first["source"]) == ("module_type", "self.norm1")
    assert {first["expected"].rpartition(".")[2], first["actual"].rpartition(".")[2]} == {
        "RMSNorm",
        "LuminaRMSNormZero",
    }
    assert not only["shape_driven"]
    (sweep,) = recording["sweeps"]
    assert all(sweep["summary"][axis]["free"] for axis in ("height", "width", "text_len"))


def test_a_mask_that_is_asked_breaks_at_one_site_and_a_published_one_nowhere() -> None:
    asked = report(COMMANDS[1])
    (site,) = asked["graph_breaks"]
    assert (site["file"], site["kind"]) == ("models/attention/flash.py", "data_dependent_branch")
    assert site["text"] == "if torch.any(~metadata.effective_mask):"
    assert site["events"] == 6
    published = report(COMMANDS[1].replace("--set masks=unknown", ""))
    assert not published["graph_breaks"]
    assert [target["compiles"] for target in published["targets"]] == [2]


@pytest.mark.parametrize("remedies", ["marks", pytest.param("settings", marks=pytest.mark.slow)])
def test_with_remedies_every_axis_is_free(remedies: str) -> None:
    if remedies == "marks":
        from models.mammoth_moda2 import free_sizes

        if not free_sizes.SUPPORTED:
            pytest.skip("this torch cannot be told a least size")
    recording = report(COMMANDS[2].replace("marks", remedies))
    assert [target["compiles"] for target in recording["targets"]] == [2]
    (only,) = recompiles(recording)
    kinds = {cause["kind"] for cause in only["causes"]}
    assert kinds == {"module_type", "module_attr", "none_vs_value"}
    assert {point["status"] for point in recording["sweeps"][0]["points"]} == {"ok"}


def test_the_document_shows_the_same_commands() -> None:
    shown = re.findall(r"^    (compilescope report .*)$", DOCUMENT, flags=re.MULTILINE)
    assert shown == COMMANDS


@pytest.mark.usefixtures("fresh_dynamo")
def test_python_of_the_document_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 (our own document)
    assert tuple(names["velocity"].shape) == (1, 16, 14, 32)
