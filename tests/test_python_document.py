"""docs/python.md: its program runs and prints what stands there, and its fields are those of the code."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from compilescope import record
from compilescope.render.fieldbook import fieldbook

if TYPE_CHECKING:
    import pytest

TEXT = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
PROGRAM, _, FIELDS = TEXT.partition("## The recording, field by field\n")
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
END = "\N{RECORD SEPARATOR}"


def blocks() -> list[tuple[str, str]]:
    return [(found[1], found[2] or "") for found in BLOCK.finditer(PROGRAM)]


def test_program_prints_what_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Torch reads the program's lines, so it is a file.
    program = tmp_path / "serve.py"
    program.write_text("".join(f"{code}\nprint({END!r}, end='')\n" for code, _ in blocks()), encoding="utf-8")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(program), run_name="__main__")
    assert printed.getvalue().split(END)[:-1] == [shown for _, shown in blocks()]


def test_every_block_is_run() -> None:
    assert len(blocks()) == TEXT.count("```python") >= 6


def test_fields_are_those_of_the_code() -> None:
    assert FIELDS.endswith(fieldbook()), "run: compilescope explain --fields, and put it at the end of docs/python.md"


def test_fieldbook_has_every_field_once() -> None:
    kinds = [kind for kind in vars(record).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    for kind in kinds:
        if kind is not msgspec.Struct:
            section = fieldbook().partition(f"### {kind.__name__}\n")[2].partition("###")[0]
            cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
            assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(kind.__struct_fields__)
