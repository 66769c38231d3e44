"""``compilescope lanes``: lists tests that no CI lane selects."""

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
    """The command line's options, each under its name."""

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
@click.option("--allow-skipped", is_flag=True, help="List tests that are skipped on this machine without failing.")
@click.option("-v", "--verbose", is_flag=True, help="List every test, and every case of its parameters.")
@click.pass_context
def lanes(context: click.Context, /, **options: object) -> None:
    """List tests that no lane selects: they silently never run.

    Lanes come from -m, --lane and --ci, or from `lanes` in [tool.compilescope]. A lane is a mark
    expression, or a command with its own paths, -m, -k and options. Pytest itself collects and
    selects; no test is run. Tests that you run only by hand are a lane too: -m slow.

    In a CI file, each command that calls pytest is a lane, for every combination of a matrix. No
    command of the file is executed; conditions (if, rules) count as true. A value that the file does
    not contain makes a lane that could not be read, and so does a script or a tox that calls pytest.

    All tests are those that pytest collects with PYTEST_ARGS before -k, -m, --deselect, the
    project's addopts or a conftest removes any. Test files that are not even collected (--ignore,
    collect_ignore, a module that skips itself) are listed as files.

    A test runs nowhere if every lane that selects it skips it. Conditions of skipif are evaluated on
    this machine; if the lanes run elsewhere, give --allow-skipped. The effect of a condition that
    raises, or of a skip inside a test, is unknown and not reported.

    \b
    compilescope lanes --ci .github/workflows/test.yml --ci .buildkite/pipeline.yml
    compilescope lanes -m 'core_model and cuda' -m 'core_model and cpu' -- tests/
    compilescope lanes --lane 'pytest tests/unit -k "not gpu"' --lane 'cd tests/e2e && pytest -m cuda'

    \b
    Exit codes: 0  every test is in some lane, and every lane selects some test
                1  tests that no lane selects, or that every lane that selects them skips;
                   a lane that selects none; test files that no lane collects
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
    """Return the lanes of a mark expression, or of a command, which itself says where its tests are."""
    return typed_lanes(lane, folder) if is_command(lane) else [marked(lane, arguments, folder)]
