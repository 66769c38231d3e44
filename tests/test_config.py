"""Settings come from pyproject.toml and the environment, and a misspelt one is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compilescope.config import Config, load_config
from compilescope.errors import UsageError
from compilescope.gate.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[str], Path]


@pytest.fixture
def project(tmp_path: Path) -> Write:
    """Write a pyproject.toml and return its folder."""

    def write(text: str) -> Path:
        (tmp_path / "pyproject.toml").write_text(text)
        return tmp_path

    return write


def test_defaults_hold_where_nothing_is_set(project: Write) -> None:
    assert load_config(project("[project]\nname = 'x'\n"), {}) == Config()


def test_table_sets_everything(project: Write) -> None:
    folder = project(
        "[tool.compilescope]\ntargets = ['Block.*']\norder = 'random'\nseed = 3\n"
        "format = ['text', 'json:out.json']\ncount-runs = false\nparity = true\nbaseline = 'accepted.json'\n"
        "strict = true\nlanes = ['slow', 'not slow']\n[tool.compilescope.budget]\nmax-compiles = 2\nown = 'src/pkg'\n"
    )
    assert load_config(folder, {}) == Config(
        targets=("Block.*",),
        order="random",
        seed=3,
        format=("text", "json:out.json"),
        count_runs=False,
        parity=True,
        baseline="accepted.json",
        strict=True,
        lanes=("slow", "not slow"),
        budget=Budget(max_compiles=2, own=("src/pkg",)),
    )


def test_single_string_is_a_list_of_one(project: Write) -> None:
    assert load_config(project("[tool.compilescope]\nformat = 'json'\n"), {}).format == ("json",)


def test_table_is_found_upwards(project: Write) -> None:
    inner = project("[tool.compilescope]\nseed = 5\n") / "a" / "b"
    inner.mkdir(parents=True)
    assert load_config(inner, {}).seed == 5


def test_nearest_pyproject_alone_counts(project: Write) -> None:
    inner = project("[tool.compilescope]\nseed = 5\n") / "a"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("")
    assert load_config(inner, {}).seed == 0


def test_environment_comes_before_the_table(project: Write) -> None:
    folder = project("[tool.compilescope]\nseed = 5\norder = 'random'\n")
    environment = {
        "COMPILESCOPE_SEED": "7",
        "COMPILESCOPE_TARGETS": "A.*, B.*",
        "COMPILESCOPE_COUNT_RUNS": "0",
        "COMPILESCOPE_PARITY": "True",
        "HOME": "/",
    }
    assert load_config(folder, environment) == Config(
        targets=("A.*", "B.*"), order="random", seed=7, count_runs=False, parity=True
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "targts = []",
            "Unknown key 'targts' in .*pyproject.toml: the keys are .* and budget. Did you mean targets\\?$",
        ),
        ("seed = '3'", "'seed' in .* must be a whole number, not '3'.$"),
        ("seed = true", "'seed' in .* must be a whole number, not True.$"),
        ("parity = 'yes'", "'parity' in .* must be true or false, not 'yes'.$"),
        ("targets = [1]", "'targets' in .* must be a string or a list of strings, not "),
        ("order = 1", "'order' in .* must be a string, not 1.$"),
        ("seed = ", "is not valid TOML"),
        ("budget = 1", "'budget' in .* must be a table, not 1.$"),
        ("budget = {max-compile = 1}", "Unknown key 'max-compile' in the budget: .* Did you mean max-compiles"),
        ("budget = {max-compiles = '1'}", "'budget' in .*pyproject.toml: The budget cannot be read: Expected `int"),
        ("budget = {max-compiles = true}", "The budget cannot be read: Expected `int"),
        ("budget = {max-compiles = -1}", "The limit max-compiles must be 0 or more, not -1"),
        ("budget = {max-compile-seconds = nan}", "The limit max-compile-seconds must be 0 or more, not nan"),
        (
            "budget = {max-recompiles-by-kind = {modul_type = 1}}",
            "'modul_type' is not a kind .* Did you mean module_type",
        ),
        ("budget = {max-own-graph-breaks = 0}", "max-own-graph-breaks needs own"),
    ],
)
def test_bad_table_is_told(project: Write, line: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_config(project(f"[tool.compilescope]\n{line}\n"), {})


def test_key_that_is_no_table_is_told(project: Write) -> None:
    with pytest.raises(UsageError, match="is not a table"):
        load_config(project("[tool]\ncompilescope = 1\n"), {})


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("COMPILESCOPE_SEDE", "1", "Unknown environment variable COMPILESCOPE_SEDE: .* Did you mean COMPILESCOPE_SEED"),
        ("COMPILESCOPE_SEED", "x", "'seed' in the environment must be a whole number, not 'x'"),
        ("COMPILESCOPE_BUDGET", "x", "Unknown environment variable COMPILESCOPE_BUDGET: .*COMPILESCOPE_LANES\\."),
        ("COMPILESCOPE_PARITY", "maybe", "'parity' in the environment must be true or false, not 'maybe'"),
    ],
)
def test_bad_environment_is_told(project: Write, name: str, text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_config(project(""), {name: text})
