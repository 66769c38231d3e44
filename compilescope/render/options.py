"""The options of any format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """How to render.

    Attributes:
        verbose: show everything that was recorded instead of one screen.
        color: write terminal colours.
        width: columns of the page; None for the format's own.
        more: the command that shows everything.
        steps: whether to say what to do next.
    """

    verbose: bool = False
    color: bool = False
    width: int | None = None
    more: str = "-v"
    steps: bool = True
