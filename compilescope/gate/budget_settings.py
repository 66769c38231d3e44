"""Reads a budget from a table of settings and from the options of a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from compilescope.errors import UsageError
from compilescope.gate.budget import Budget
from compilescope.wording import guess, listing

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS: Final = tuple(field.encode_name for field in msgspec.structs.fields(Budget))
"""The keys of ``[tool.compilescope.budget]``."""
_LISTS: Final = frozenset({"targets", "own", "allow-fallbacks", "allow-uncompiled"})


def read_budget(table: Mapping[str, object]) -> Budget:
    """Return the budget that a table of settings describes.

    Raises:
        UsageError: a key is unknown, a value has the wrong type, or the budget can never report anything.
    """
    for key in table:
        if key not in KEYS:
            msg = f"Unknown key {key!r} in the budget: the keys are {listing(KEYS)}.{guess(key, KEYS)}"
            raise UsageError(msg)
    # A single string is a list of one, as everywhere in the settings.
    whole = {key: [value] if key in _LISTS and isinstance(value, str) else value for key, value in table.items()}
    try:
        return msgspec.convert(whole, Budget)
    except msgspec.ValidationError as error:
        msg = f"The budget cannot be read: {error}."
        raise UsageError(msg) from None
