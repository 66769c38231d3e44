"""Annotations: escaped as the runner undoes it, on one line each, and never a clean word for what is doubtful."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from compilescope.record import Finding
from compilescope.render.registry import render

if TYPE_CHECKING:
    from compilescope.record import Recording

COMMAND = re.compile(r"::(?P<level>error|warning|notice) (?P<properties>[^:]*)::(?P<data>[^\r\n]*)")


def commands(recording: Recording) -> list[tuple[str, dict[str, str], str]]:
    """Read the annotations as the runner does."""
    read = []
    for line in render(recording, "github").splitlines():
        found = COMMAND.fullmatch(line)
        assert found, line
        pairs = (pair.partition("=") for pair in found["properties"].split(","))
        properties = {name: undone(value) for name, _, value in pairs}
        read.append((found["level"], properties, undone(found["data"])))
    return read


def undone(text: str) -> str:
    for written, meant in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(written, meant)
    return text


def test_finding_is_an_error_at_its_line(faulty: Recording) -> None:
    level, properties, data = commands(faulty)[0]
    assert (level, data) == ("error", "7 recompiles, 0 allowed")
    assert properties["line"] == "410"
    assert properties["file"].endswith("transformer_flux.py")
    assert properties["title"] == "CS101 nothing-compiled"


def test_delimiters_within_a_finding_do_not_end_it(clean: Recording) -> None:
    finding = Finding(rule="CS301", code=None, message="50% :: a,b", file="a,b:c%.py", line=3)
    ((level, properties, data), *_) = commands(replace(clean, findings=(finding,)))
    assert (level, data) == ("error", "50% :: a,b")
    assert properties["file"] == "a,b:c%.py"


@pytest.mark.parametrize("name", ["clean", "flux", "nothing", "limit_hit", "faulty", "big", "hostile"])
def test_every_line_is_one_command(name: str, request: pytest.FixtureRequest) -> None:
    recording = request.getfixturevalue(name)
    levels = [level for level, _, _ in commands(recording)]
    assert levels.count("error") == len(recording.findings)


def test_finding_without_a_file_has_no_place(clean: Recording) -> None:
    finding = Finding(rule="CS101", code=None, message="m", line=3)
    assert commands(replace(clean, findings=(finding,)))[0][1] == {"title": "CS101 nothing-compiled"}


def test_doubts_are_warnings_where_nothing_was_judged(nothing: Recording) -> None:
    assert ("warning", {"title": "compilescope"}) in [(level, properties) for level, properties, _ in commands(nothing)]
    assert any("NOTHING WAS COMPILED" in data for _, _, data in commands(nothing))


def test_clean_run_is_a_single_notice_with_the_counts(clean: Recording) -> None:
    ((level, _, data),) = commands(clean)
    assert level == "notice"
    assert data.startswith("2 compilations of 2 code objects, 0 recompiles")
