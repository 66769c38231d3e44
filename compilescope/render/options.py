"""What a reader may ask of any format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """How to render.

    Attributes:
        verbose: show everything that was recorded instead of what fits one screen.
        color: write terminal colours.
        width: columns of the page; None for the format's own.
        more: what a reader would type to see everything.
        steps: whether to say what to do next.
    """

    verbose: bool = False
    color: bool = False
    width: int | None = None
    more: str = "-v"
    steps: bool = True
