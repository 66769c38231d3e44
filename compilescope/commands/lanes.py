"""``compilescope lanes``: tests that no lane of continuous integration selects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compilescope.commands.verdict import FINE, FOUND
from compilescope.config import load_config
from compilescope.errors import UsageError
from compilescope.lanes.audit import audit
from compilescope.lanes.lane import marked
from compilescope.lanes.reading import distinct, is_command, typed_lanes
from compilescope.lanes.telling import lines

if TYPE_CHECKING:
    from compilescope.lanes.lane import Lane


@click.command(short_help="List tests that no CI lane selects.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_ARGS...]")
@click.option(
    "-m",
    "--lane",
    "lanes",
    multiple=True,
    metavar="LANE",
    help="One lane: a mark expression, as pytest -m takes it, or a whole pytest command; repeatable.",
)
@click.option("--allow-skipped", is_flag=True, help="What is skipped on this machine is listed, and no failure.")
@click.option("-v", "--verbose", is_flag=True, help="List every test, and every case of its parameters.")
@click.pass_context
def lanes(
    context: click.Context,
    pytest_args: tuple[str, ...],
    lanes: tuple[str, ...],
    *,
    allow_skipped: bool,
    verbose: bool,
) -> None:
    """List the tests that none of the lanes selects: they are silently never run.

    Lanes come from -m, or from `lanes` in [tool.compilescope]. A lane is a mark expression, or a
    command with its own paths, -m, -k and options. Pytest itself collects and selects; nothing is
    run. What is run by hand alone is a lane too: -m slow.

    All tests are those that pytest collects with PYTEST_ARGS before -k, -m, --deselect, the
    project's addopts or a conftest takes any away. Files of tests that are not even collected
    (--ignore, collect_ignore, a module that skips itself) are listed as files.

    A test that every lane that selects it skips runs nowhere. Conditions of skipif hold on this
    machine, and may not where a lane runs: say --allow-skipped where that is so. What a condition
    that fails or a skip inside of a test would do is not known, and not claimed.

    \b
    compilescope lanes -m 'core_model and cuda' -m 'core_model and cpu' -- tests/
    compilescope lanes --lane 'pytest tests/unit -k "not gpu"' --lane 'cd tests/e2e && pytest -m cuda'

    \b
    Exit codes: 0  every test is in some lane, and every lane selects some test
                1  tests that no lane selects, or that all that select them skip; a lane
                   that selects none; files of tests that no lane collects
                2  wrong usage, or pytest cannot collect
    """  # noqa: D301 (\b is click's mark for a paragraph that is not to be filled)
    chosen = lanes or load_config(Path.cwd(), os.environ).lanes
    if not chosen:
        msg = "Give the lanes: -m EXPR or --lane COMMAND for each, or lanes in [tool.compilescope]."
        raise UsageError(msg)
    folder = Path.cwd()
    typed = [lane for one in chosen for lane in _typed(one, pytest_args, folder)]
    result = audit(distinct(typed), pytest_args, folder)
    for line in lines(result, verbose=verbose):
        click.echo(line)
    skipped = not allow_skipped and (result.skipped or result.skipping)
    context.exit(FOUND if result.unselected or result.empty or result.ignored or skipped else FINE)


def _typed(lane: str, arguments: tuple[str, ...], folder: Path) -> list[Lane]:
    """Return the lanes of a mark expression, or of a command, which says by itself where its tests are."""
    return typed_lanes(lane, folder) if is_command(lane) else [marked(lane, arguments, folder)]
