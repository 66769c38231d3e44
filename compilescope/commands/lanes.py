"""``compilescope lanes``: tests that no lane of continuous integration selects."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from compilescope.commands.exit_codes import BROKEN, FINE, FOUND
from compilescope.commands.printing import Command, show
from compilescope.config import load_config, working_folder
from compilescope.errors import UsageError
from compilescope.lanes.audit import audit
from compilescope.lanes.ci.read import read
from compilescope.lanes.lane import marked
from compilescope.lanes.reading import distinct, is_command, typed_lanes
from compilescope.lanes.telling import lines
from compilescope.render.words import harmless

if TYPE_CHECKING:
    from pathlib import Path

    from compilescope.lanes.audit import Audit
    from compilescope.lanes.lane import Lane


@dataclass(frozen=True, slots=True)
class _Request:
    """What the command line asks for; each field is an option of its name."""

    pytest_args: tuple[str, ...]
    lanes: tuple[str, ...]
    ci: tuple[str, ...]
    allow_skipped: bool
    verbose: bool


@click.command(cls=Command, short_help="List tests that no CI lane selects.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_ARGS...]")
@click.option(
    "-m",
    "--lane",
    "lanes",
    multiple=True,
    metavar="LANE",
    help="One lane: a mark expression, as pytest -m takes it, or a whole pytest command; repeatable.",
)
@click.option(
    "--ci",
    multiple=True,
    metavar="FILE",
    help="Read the lanes from a workflow of GitHub Actions, or a pipeline of GitLab CI or Buildkite; repeatable.",
)
@click.option("--allow-skipped", is_flag=True, help="What is skipped on this machine is listed, and no failure.")
@click.option("-v", "--verbose", is_flag=True, help="List every test, and every case of its parameters.")
@click.pass_context
def lanes(context: click.Context, /, **options: object) -> None:
    """List the tests that none of the lanes selects: they are silently never run.

    Lanes come from -m and --ci, or from `lanes` in [tool.compilescope]. A lane is a mark expression,
    or a command with its own paths, -m, -k and options. Pytest itself collects and selects; nothing
    is run. What is run by hand alone is a lane too: -m slow.

    Of a CI file, each command that calls pytest is a lane, for every combination of a matrix. No
    command of it is executed; conditions (if, rules) are taken as met. A value that the file does
    not hold makes a lane that could not be read, and so does a script or a tox that calls pytest.

    All tests are those that pytest collects with PYTEST_ARGS before -k, -m, --deselect, the
    project's addopts or a conftest takes any away. Files of tests that are not even collected
    (--ignore, collect_ignore, a module that skips itself) are listed as files.

    A test that every lane that selects it skips runs nowhere. Conditions of skipif hold on this
    machine, and may not where a lane runs: say --allow-skipped where that is so. What a condition
    that fails or a skip inside of a test would do is not known, and not claimed.

    \b
    compilescope lanes --ci .github/workflows/test.yml --ci .buildkite/pipeline.yml
    compilescope lanes -m 'core_model and cuda' -m 'core_model and cpu' -- tests/
    compilescope lanes --lane 'pytest tests/unit -k "not gpu"' --lane 'cd tests/e2e && pytest -m cuda'

    \b
    Exit codes: 0  every test is in some lane, and every lane selects some test
                1  tests that no lane selects, or that all that select them skip; a lane
                   that selects none; files of tests that no lane collects
                2  wrong usage, pytest cannot collect, or a lane could not be read
    """  # noqa: D301 (\b is click's mark for a paragraph that is not to be filled)
    request = _Request(**options)  # type: ignore[arg-type]  # click gives each option its declared type
    result = _audit(request, working_folder())
    for line in lines(result, verbose=request.verbose):
        show(f"{harmless(line)}\n")
    skipped = not request.allow_skipped and (result.skipped or result.skipping)
    failed = FOUND if result.unselected or result.empty or result.ignored or skipped else FINE
    context.exit(BROKEN if result.unread else failed)


def _audit(request: _Request, folder: Path) -> Audit:
    given = request.lanes or request.ci
    chosen = request.lanes if given else load_config(folder, os.environ).lanes
    if not chosen and not request.ci:
        msg = "Give the lanes: -m EXPR or --lane COMMAND for each, --ci FILE, or lanes in [tool.compilescope]."
        raise UsageError(msg)
    typed = [lane for one in chosen for lane in _typed(one, request.pytest_args, folder)]
    found, unread = read(request.ci, folder)
    return audit(distinct([*typed, *found]), request.pytest_args, folder, unread)


def _typed(lane: str, arguments: tuple[str, ...], folder: Path) -> list[Lane]:
    """Return the lanes of a mark expression, or of a command, which says by itself where its tests are."""
    return typed_lanes(lane, folder) if is_command(lane) else [marked(lane, arguments, folder)]
