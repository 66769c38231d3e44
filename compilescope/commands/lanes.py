"""``compilescope lanes``: tests that no lane of continuous integration selects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from compilescope.commands.printing import Command, show
from compilescope.commands.verdict import FINE, FOUND
from compilescope.config import load_config
from compilescope.errors import UsageError
from compilescope.lanes.audit import audit
from compilescope.render.words import plain
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope.lanes.audit import Audit

_SHOWN: Final = 30
"""Test functions that are listed without ``-v``."""


@click.command(cls=Command, short_help="List tests that no CI lane selects.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_ARGS...]")
@click.option(
    "-m",
    "--lane",
    "lanes",
    multiple=True,
    metavar="EXPR",
    help="Mark expression of one lane, as pytest -m; repeatable.",
)
@click.option("-v", "--verbose", is_flag=True, help="List every test, and every case of its parameters.")
@click.pass_context
def lanes(context: click.Context, pytest_args: tuple[str, ...], lanes: tuple[str, ...], *, verbose: bool) -> None:
    """List the collected tests that none of the lanes selects: they are silently never run.

    Lanes come from -m, or from `lanes` in [tool.compilescope]. Pytest itself collects and
    selects; nothing is run. What is run by hand alone is a lane too: -m slow.

    \b
    compilescope lanes -m 'core_model and cuda' -m 'core_model and cpu' -- tests/

    \b
    Exit codes: 0  every test is in some lane, and every lane selects some test
                1  tests that no lane selects, or a lane that selects none
                2  wrong usage, or pytest cannot collect
    """  # noqa: D301 (\b is click's mark for a paragraph that is not to be filled)
    chosen = lanes or load_config(Path.cwd(), os.environ).lanes
    if not chosen:
        msg = "Give the lanes: -m EXPR for each, or lanes in [tool.compilescope]."
        raise UsageError(msg)
    result = audit(tuple(dict.fromkeys(chosen)), pytest_args)
    for line in _lines(result, verbose=verbose):
        show(f"{line}\n")
    context.exit(FOUND if result.unselected or result.empty else FINE)


def _lines(result: Audit, *, verbose: bool) -> Iterator[str]:
    for lane, tests in result.lanes.items():
        selects = f"selects {len(tests)} of {count(len(result.collected), 'test')}" if tests else "SELECTS NO TEST"
        yield f"lane {lane!r} {selects}"
    missed = result.unselected
    if not missed:
        yield "Every test is in some lane." if not result.empty else "Every test is in some other lane."
        return
    yield ""
    yield f"{count(len(missed), 'test')} in no lane:"
    told = [(test, result.collected[test]) for test in missed] if verbose else list(_folded(result))
    shown = told if verbose else told[:_SHOWN]
    for name, marks in shown:
        yield f"  {plain(name)}  {'marked ' + ', '.join(marks) if marks else 'no marks'}"
    if len(told) > len(shown):
        yield f"  ... and {len(told) - len(shown)} more: -v lists all"


def _folded(result: Audit) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the test functions, each with how many cases of its parameters are meant, and their marks."""
    functions: dict[str, list[str]] = {}
    for test in result.unselected:
        functions.setdefault(test.partition("[")[0], []).append(test)
    for name, cases in functions.items():
        marks = sorted({mark for case in cases for mark in result.collected[case]})
        yield (cases[0] if len(cases) == 1 else f"{name} ({count(len(cases), 'case')})", marks)
