"""A progress bar on stderr, if it is a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope.workloads.points import Point


def show(points: Sequence[Point]) -> Iterator[Point]:
    """Yield ``points`` in order, with a bar on stderr if it is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from points
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(points))
        for point in points:
            bar.update(task, description=", ".join(f"{axis}={value}" for axis, value in point.items()))
            yield point
            bar.advance(task)
    sys.stderr.flush()
