"""docs/pytest.md names every mark, argument, member and option that there is, and no other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from compilescope import pytest_plugin, testing
from compilescope.plugin.arguments import ARGUMENTS, BROKEN, TARGETS
from compilescope.plugin.fixture import Watch

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading that begins so."""
    below = TEXT.partition(f"| {heading}")[2].split("\n\n", maxsplit=1)[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in below.splitlines()[2:]]


def named(cell: str) -> set[str]:
    """Return the words that a cell sets in code."""
    return set(re.findall(r"`([\w-]+)", cell))


def test_marks() -> None:
    assert {name for row in rows("mark ") for name in named(row[0])} == set(pytest_plugin.MARKS) == set(ARGUMENTS)


@pytest.mark.parametrize("mark", ARGUMENTS)
def test_arguments_of(mark: str) -> None:
    told = {row[0].strip("`") for row in rows("argument ") if row[1] == "all" or mark in named(row[1])}
    assert told == {*ARGUMENTS[mark], TARGETS, BROKEN}


def test_members_of_the_fixture() -> None:
    public = {name for name in vars(Watch) if not name.startswith("_")} - {"rulings", "claimed"}
    assert {name for row in rows("member ") for name in named(row[0])} == public


def test_options_and_settings(pytestconfig: pytest.Config) -> None:
    class Parser:
        """Collects what the plugin adds."""

        def __init__(self) -> None:
            self.names: set[str] = set()

        def getgroup(self, *_names: str) -> Parser:
            return self

        def addoption(self, name: str, **_rest: object) -> None:
            self.names.add(name)

        def addini(self, name: str, *_rest: object, **_more: object) -> None:
            self.names.add(name)

    parser = Parser()
    pytest_plugin.pytest_addoption(parser)  # type: ignore[arg-type]
    told = {row[0].strip("`").partition("=")[0] for row in (*rows("option "), *rows("setting "))}
    assert told == parser.names


def test_least_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = dict(requirement.split(">=") for requirement in project["optional-dependencies"]["pytest"])
    assert f"pytest {least['pytest']} and pluggy {least['pluggy']} or newer" == pytest_plugin.NEEDS
    assert f"The plugin needs {pytest_plugin.NEEDS}" in TEXT
    assert not [requirement for requirement in project["dependencies"] if requirement.startswith(("pytest", "pluggy"))]


def test_helpers() -> None:
    helpers = {name for name in testing.__all__ if name.startswith("assert_")}
    assert helpers <= set(re.findall(r"`(assert_\w+)`", TEXT)) | set(re.findall(r"\b(assert_\w+)", TEXT))
    assert set(re.findall(r"\b(assert_\w+)", TEXT)) <= helpers
