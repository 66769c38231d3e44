"""Where reports go: which format to which file, and the error when one cannot be written."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.commands.printing import is_closed, is_terminal, show
from compilescope.errors import CompilescopeError, UsageError
from compilescope.files import STDOUT, hindrance, is_same, write_atomically
from compilescope.render.registry import FORMATS, render
from compilescope.storage import save
from compilescope.wording import guess, listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from compilescope.record import Recording


_NARROWEST: Final = 60
_WIDEST: Final = 200
NOTHING: Final[Mapping[Path, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Route:
    """One rendering. ``path`` is None for stdout."""

    format: str
    path: Path | None = None


def plan_routes(
    formats: Iterable[str], output: str | None, saved: Path | None, *, inputs: Mapping[Path, str] = NOTHING
) -> tuple[Route, ...]:
    """Read ``FORMAT`` and ``FORMAT:FILE``, and check all places before anything runs.

    Args:
        formats: as given; a file named ``-`` is stdout.
        output: the file for the one format without one.
        saved: where the recording goes.
        inputs: files that must not be overwritten, each with its role: "the baseline".

    Raises:
        UsageError: a format is unknown, two share a place, one would overwrite an input, or a place cannot be written.
    """
    routes: list[Route] = []
    for text in formats:
        name, colon, file = text.partition(":")
        if name not in FORMATS:
            msg = f"Unknown format {name!r}: the formats are {listing(FORMATS)}.{guess(name, FORMATS)}"
            raise UsageError(msg)
        if colon and not file:
            msg = f"--format {text!r} names no file after the colon."
            raise UsageError(msg)
        chosen = file if colon else output
        routes.append(Route(name, None if chosen in {None, "-"} else Path(chosen or "")))
    if output is not None and all(":" in text for text in formats):
        msg = "-o gives a file to the --format that has none, and every --format has one already."
        raise UsageError(msg)
    _keep_apart([route.path for route in routes] + ([] if saved is None else [saved]), inputs)
    for route in routes:
        if route.path is not None:
            check_writable(route.path)
        elif is_closed(sys.stdout):
            msg = "stdout is closed: give the report a file, as -o FILE."
            raise UsageError(msg)
    if saved is not None:
        check_writable(saved)
    return tuple(routes)


def _keep_apart(places: Sequence[Path | None], inputs: Mapping[Path, str]) -> None:
    """Check that no two places are the same file, nor a place an input, however they are spelt; None is stdout.

    Raises:
        UsageError: one is.
    """
    real = [STDOUT if place is None else place for place in places]
    for number, place in enumerate(places):
        role = next((role for path, role in inputs.items() if is_same(path, real[number])), None)
        if role is not None:
            msg = f"{place or 'stdout'} is {role}: give the report another file."
            raise UsageError(msg)
        if any(is_same(real[number], other) for other in real[:number]):
            msg = f"Two outputs would go to {place or 'stdout'}: give each a file, as --format FORMAT:FILE."
            raise UsageError(msg)


def check_writable(place: Path) -> None:
    """Check that ``place`` can be written, so that a long run does not end with a report that has nowhere to go.

    Raises:
        UsageError: it cannot.
    """
    hindered = hindrance(place)
    if hindered is not None:
        raise UsageError(hindered)


def deliver(recording: Recording, routes: Iterable[Route], *, saved: Path | None, verbose: bool) -> list[str]:
    """Save and render ``recording`` to every place.

    Returns:
        A sentence for each place that failed; the others are written all the same.

    Raises:
        BrokenPipeError: the reader of stdout closed it.
    """
    failures: list[str] = []
    if saved is not None:
        try:
            save(recording, saved)
        except CompilescopeError as error:
            failures.append(str(error))
    # stdout comes last, as its reader may have closed it.
    for route in sorted(routes, key=lambda route: route.path is None):
        try:
            _deliver_one(recording, route, verbose=verbose)
        except CompilescopeError as error:
            failures.append(str(error))
    return failures


def _deliver_one(recording: Recording, route: Route, *, verbose: bool) -> None:
    if route.path is not None:
        write_atomically(route.path, render(recording, route.format, verbose=verbose).encode())
        return
    color = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
    show(render(recording, route.format, verbose=verbose, color=color, width=_terminal_width()), color=color)


def _terminal_width() -> int | None:
    """Return the columns of the terminal, within what reads well; None if stdout is not a terminal."""
    if not is_terminal(sys.stdout):
        return None
    return min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
