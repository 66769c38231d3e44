"""What a baseline holds of a real run does not change when lines move."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from compilescope.cli import main

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import torch


class Block(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        torch._dynamo.graph_break()
        if x.sum() > 3:
            x = x - 1
        return step(x)


def step(x):
    print("in a function that is traced inline")
    return [x + k for k in range(2)]


block = Block()
block.compile(backend="eager", dynamic=False)
for length in (3, 4, 5):
    block(torch.ones(length))
for dtype in (torch.float64, torch.int32):
    block(torch.ones(3, dtype=dtype))
"""
LIMITS = ["--max-compiles", "--max-recompiles", "--max-graph-breaks", "--max-guards"]


@pytest.mark.usefixtures("fresh_dynamo")
def test_baseline_of_a_program_whose_lines_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    written = []
    for number, shift in enumerate((0, 7)):
        folder = tmp_path / f"checkout{number}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        (folder / "program.py").write_text("# a comment\n" * shift + PROGRAM)
        torch.compiler.reset()
        limits = [word for limit in LIMITS for word in (limit, "0")]
        arguments = ["check", "program.py", "-q", *limits, "--no-shape-recompile", "--baseline", "b.json"]
        ended = CliRunner().invoke(main, [*arguments, "--update-baseline"], catch_exceptions=False)
        assert ended.exit_code == 0, ended.stdout
        sys.modules.pop("program", None)
        written.append((folder / "b.json").read_text())
    assert written[0] == written[1]
    assert len(written[0].splitlines()) > 15
    assert "resume_in" not in written[0]
