"""Small pieces of the sentences that people read: lists of names and guesses at what was meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def listing(words: Iterable[str], *, last: str = "and") -> str:
    """Return ``a, b and c``; an empty string for no words."""
    *head, tail = list(words) or [""]
    return f"{', '.join(head)} {last} {tail}" if head else tail


def guess(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean a or b?"``, or an empty string where nothing known resembles ``word``."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=3, cutoff=0.6)
    return f" Did you mean {listing((by_folded[name] for name in close), last='or')}?" if close else ""


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 graph`` or ``2 graphs``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
