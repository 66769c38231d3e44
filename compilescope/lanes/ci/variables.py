"""Variables whose values name other variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMED: Final = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
_DEPTH: Final = 5
"""How many variables may refer to each other in a chain."""


def resolved(written: Mapping[str, str]) -> dict[str, str | None]:
    """Return variables with references replaced by their values; None for a variable that refers to an unknown value.

    Args:
        written: values that may hold ``$NAME`` and ``${NAME}``.
    """
    return {name: _resolved(value, written) for name, value in written.items()}


def _resolved(value: str, written: Mapping[str, str]) -> str | None:
    for _ in range(_DEPTH):
        value = _NAMED.sub(lambda found: written.get(found[1] or found[2], found[0]), value)
    return None if _NAMED.search(value) else value
