"""Every word that a renderer prints of what it found is one that `compilescope explain` knows."""

from __future__ import annotations

import ast
import inspect
import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from compilescope.analysis import summary
from compilescope.commands.explain import explanation
from compilescope.record import Compilation, SweepPoint
from compilescope.render.registry import render
from compilescope.render.sweeps import axis_lines

if TYPE_CHECKING:
    from compilescope.record import Recording

ALL = ("clean", "flux", "nothing", "limit_hit", "faulty", "big", "hostile")
CYAN = re.compile(r"\x1b\[(?:1;)?36m([^\x1b]+)\x1b")
MARKED = re.compile(r"^  \S+ +\x1b\[\d+m(\w+)\x1b", re.MULTILINE)


def assert_known(words: set[str]) -> None:
    assert words
    for word in words:
        assert explanation(word)


@pytest.fixture
def every(faulty: Recording) -> Recording:
    """Every fault and every outcome."""
    outcomes = ("skipped", "empty", "refused", "failed", "limit")
    more = (
        Compilation(id=f"9/{n}", code=faulty.code_objects[0].id, outcome=o, seconds=0.1) for n, o in enumerate(outcomes)
    )
    return msgspec.structs.replace(faulty, compilations=(*faulty.compilations, *more))


def test_kinds_in_the_text(every: Recording) -> None:
    assert_known(set(CYAN.findall(render(every, "text", verbose=True, color=True))))


def test_outcomes_in_the_text(every: Recording) -> None:
    page = render(every, "text", verbose=True, color=True)
    assert_known(set(MARKED.findall(page.partition("Compilations in order")[2])))
    counted = re.findall(r"\d+ (skipped|refused by the limit|refused|failed|with nothing to compile)", page)
    assert_known(set(counted))


def cells(page: str, heading: str, column: str) -> set[str]:
    """Return what stands in one column of the table under a heading of a markdown page."""
    table = [line for line in page.partition(f"### {heading}\n")[2].partition("###")[0].splitlines() if "|" in line]
    rows = [[cell.strip(" `*") for cell in line.strip("| ").split(" | ")] for line in table]
    place = rows[0].index(column)
    return {row[place] for row in rows[2:]}


@pytest.mark.parametrize(
    ("heading", "column"),
    [
        ("Recompiles", "Kind"),
        ("Graph breaks", "Kind"),
        ("Graph breaks", "Id"),
        ("Eager fallbacks", "Kind"),
        ("Targets", "Status"),
        ("Findings", "Rule"),
    ],
)
def test_words_in_the_markdown(every: Recording, heading: str, column: str) -> None:
    assert_known(cells(render(every, "markdown"), heading, column))


def test_attempts_in_the_markdown(every: Recording) -> None:
    attempts = cells(render(every, "markdown"), "Code objects", "Attempts that failed")
    assert_known({word for cell in attempts for word in re.findall(r"\d+ (\w+)", cell)})


def test_reasons_why_a_run_is_not_valid() -> None:
    """Each stands in a sentence of the markdown, where something is wrong."""
    calls = (step for step in ast.walk(ast.parse(inspect.getsource(summary))) if isinstance(step, ast.Call))
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Alarm"]
    harmless = [call for call in made if any(ast.unparse(keyword) == "wrong=False" for keyword in call.keywords)]
    names = {ast.literal_eval(call.args[0]) for call in made if call not in harmless}
    assert_known({name.replace("_", " ") for name in names})


@pytest.mark.parametrize("name", ALL)
def test_words_on_an_axis(request: pytest.FixtureRequest, name: str) -> None:
    recording = request.getfixturevalue(name)
    for sweep in recording.sweeps:
        raised = tuple(SweepPoint(values=p.values, status="error", seconds=0.1, error="E: x") for p in sweep.points[:1])
        for points in (sweep.points, (*raised, *sweep.points[1:]), ()):
            changed = msgspec.structs.replace(sweep, points=points)
            for line in axis_lines(msgspec.structs.replace(recording, sweeps=(changed,)), changed):
                assert_known({axis_word(part) for part in line.verdict.split("; ")})


def axis_word(part: str) -> str:
    """Return the word in ``5, 7: raised IndexError`` or ``compiles at 1 of 3 values: 64 (size)``."""
    told = re.sub(r" \(.*\)$", "", part.rpartition(": ")[2] if re.match(r"[^:]*: (ran|raised|not)", part) else part)
    for word in ("compiles at", "raised"):
        told = word if told.startswith(word) else told
    return told.replace("other value", "value").removeprefix("otherwise ")
