"""The project's own folders, spelt like the files of a recording: relative to where it was made, or absolute."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PATTERN = frozenset("*?[")


def spelt_as_recorded(places: Iterable[str], home: Path) -> tuple[str, ...]:
    """Return folders, files and patterns the way :meth:`compilescope.gate.budget.Budget.is_own` compares them.

    ``./src/../pkg`` and the absolute path of ``pkg`` are ``pkg``. A folder above ``home`` holds ``home`` too, whose
    files are recorded relative to it. Patterns are left as they are.
    """
    found: list[str] = []
    for place in places:
        if not place or _PATTERN.intersection(place):
            found.append(place)
            continue
        whole = os.path.normpath(home / place)
        relative = os.path.relpath(whole, home)
        if relative == os.curdir or not relative.startswith(os.pardir):
            found.append(relative)
            continue
        found.append(whole)
        if home.is_relative_to(whole):
            found.append(os.curdir)
    return tuple(dict.fromkeys(found))
