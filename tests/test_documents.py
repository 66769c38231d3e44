"""What the documents on continuous integration say is what the code does."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from compilescope.cli import main
from compilescope.commands.check import check
from compilescope.commands.limits import budget_from
from compilescope.config import load_config
from compilescope.gate import baseline
from compilescope.gate.budget import Budget
from compilescope.gate.budget_settings import KEYS
from compilescope.render.kindbook import kindbook
from compilescope.render.registry import FORMATS
from compilescope.render.rulebook import rulebook

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parent.parent / "docs"
CI = (DOCS / "ci.md").read_text(encoding="utf-8")


def commands() -> Iterator[str]:
    for line in CI.splitlines():
        found = re.match(r"(?: {4}|\s+- (?:run: )?)(compilescope (?!-).*)", line)
        if found:
            yield found[1]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", CI, flags=re.DOTALL)


def test_rules_are_those_of_the_code() -> None:
    assert (DOCS / "rules.md").read_text(encoding="utf-8") == rulebook(), (
        "run: compilescope explain --rules > docs/rules.md"
    )


def test_kinds_are_those_of_the_code() -> None:
    assert (DOCS / "kinds.md").read_text(encoding="utf-8") == kindbook(), (
        "run: compilescope explain --kinds > docs/kinds.md"
    )


def test_there_are_commands_to_look_at() -> None:
    assert len(list(commands())) >= 6


@pytest.mark.parametrize("command", list(commands()))
def test_command_is_one_that_the_command_line_takes(command: str) -> None:
    _, name, *arguments = shlex.split(command)
    subcommand = main.commands[name]
    context = subcommand.make_context(name, list(arguments))
    if name == "check":
        budget_from(context.params, Budget())


def test_every_option_that_limits_is_told() -> None:
    own = [option for option in check.params if isinstance(option, click.Option)]
    limits = {name for option in own for name in option.opts if re.match("--(max|min|no-shape|allow|own)", name)}
    assert len(limits) > 10
    assert [name for name in sorted(limits) if f"`{name}" not in CI] == []


def test_every_key_of_the_budget_is_told() -> None:
    assert [key for key in KEYS if f"| `{key}` |" not in CI] == []


def test_every_format_is_told() -> None:
    assert [name for name in FORMATS if name != "text" and f"`{name}`" not in CI] == []


def test_settings_can_be_read(tmp_path: Path) -> None:
    (text,) = blocks("toml")
    (tmp_path / "pyproject.toml").write_text(text)
    budget = load_config(tmp_path, {}).budget
    assert (
        budget.max_recompiles_by_kind == tomllib.loads(text)["tool"]["compilescope"]["budget"]["max-recompiles-by-kind"]
    )


def test_baseline_can_be_read(tmp_path: Path) -> None:
    (text,) = blocks("json")
    (tmp_path / "b.json").write_text(text)
    read = baseline.read(tmp_path / "b.json")
    assert baseline.to_text(read) == text
    assert json.loads(text)["format"] == baseline.FORMAT


def test_gates_are_as_short_as_is_said() -> None:
    github, gitlab = blocks("yaml")
    assert len(github.splitlines()) <= 10
    assert len(gitlab.splitlines()) <= 10
