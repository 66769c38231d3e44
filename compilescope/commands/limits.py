"""The options of ``check`` that set limits, and the budget that they and the settings make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec.structs import fields, replace

from compilescope.commands.source import read_pairs
from compilescope.errors import UsageError
from compilescope.gate.budget import Budget
from compilescope.gate.places import spelt_as_recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Command = TypeVar("_Command", bound="Callable[..., Any]")

# Each option has the name of its field in Budget.
_OPTIONS: Final = (
    click.option("--max-compiles", type=int, metavar="N", help="At most N compilations of each target."),
    click.option("--max-recompiles", type=int, metavar="N", help="At most N recompiles of each target."),
    click.option(
        "--max-recompiles-of",
        "max_recompiles_by_kind",
        multiple=True,
        metavar="KIND=N",
        help="At most N recompiles of each target for one kind of cause, which then count only here.",
    ),
    click.option(
        "--no-shape-recompile/--shape-recompile",
        default=None,
        help="Forbid recompiles that general shapes would have avoided.",
    ),
    click.option("--max-graph-breaks", type=int, metavar="N", help="At most N graph-break sites."),
    click.option(
        "--max-own-graph-breaks", type=int, metavar="N", help="At most N graph-break sites in the paths of --own."
    ),
    click.option("--own", multiple=True, metavar="PATH", help="A folder, file or pattern of the project's own code."),
    click.option(
        "--allow-fallback",
        "allow_fallbacks",
        multiple=True,
        metavar="KIND|CODE",
        help="A kind of eager fallback, or the name of a code object that may run eagerly; '*' allows all.",
    ),
    click.option(
        "--allow-uncompiled", multiple=True, metavar="PATTERN", help="A target that need not be compiled itself."
    ),
    click.option("--allow-unknown/--no-allow-unknown", default=None, help="Allow recompiles of unknown cause."),
    click.option("--min-operators", type=int, metavar="N", help="At least N operators in the graphs."),
    click.option("--max-guards", type=int, metavar="N", help="At most N guards in one compilation."),
    click.option(
        "--max-seconds", "max_compile_seconds", type=float, metavar="S", help="At most S seconds for all compilations."
    ),
    click.option(
        "--max-relative-l2",
        type=float,
        metavar="X",
        help="At most X relative L2 difference from eager; needs --parity.",
    ),
)


def limit_options(command: _Command) -> _Command:
    """Give ``command`` the options that :func:`budget_from` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def budget_from(options: Mapping[str, Any], settings: Budget) -> Budget:
    """Return the budget of the settings, overridden by the command line.

    Raises:
        UsageError: a limit cannot be read, or can never report anything.
    """
    given = {field.name: options.get(field.name) for field in fields(Budget)}
    given["max_recompiles_by_kind"] = _by_kind(options["max_recompiles_by_kind"])
    budget = replace(settings, **{name: value for name, value in given.items() if value not in (None, (), {})})
    if options["own"] and budget.max_own_graph_breaks is None:
        msg = "--own does nothing without --max-own-graph-breaks."
        raise UsageError(msg)
    return replace(budget, own=spelt_as_recorded(budget.own, Path.cwd()))


def _by_kind(texts: tuple[str, ...]) -> dict[str, int]:
    read: dict[str, int] = {}
    for kind, number in read_pairs("--max-recompiles-of", texts).items():
        if not number.isdecimal():
            msg = f"--max-recompiles-of '{kind}={number}' needs a whole number of 0 or more."
            raise UsageError(msg)
        read[kind] = int(number)
    return read
