"""The confusion table: for each kind of cause that a program was written to have, the kinds it was given."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOTHING = "(nothing)"


@dataclass
class Confusion:
    """Counts pairs of kind expected and kind given."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, expected: Iterable[str], given: Iterable[str]) -> None:
        """Count two runs of kinds against each other, one by one; what has no partner meets ``(nothing)``."""
        self.pairs.update(zip_longest(expected, given, fillvalue=NOTHING))

    def lines(self) -> Iterator[str]:
        """Yield a row for each kind expected, its right answers first, wrong ones in capitals behind."""
        expected = sorted({kind for kind, _ in self.pairs})
        width = max(map(len, expected))
        yield f"{'expected':{width}}  right  wrong"
        for kind in expected:
            wrong = [f"{given.upper()} {n}" for (want, given), n in sorted(self.pairs.items()) if want == kind != given]
            yield f"{kind:{width}}  {self.pairs[kind, kind]:5}  {', '.join(wrong) or '-'}"
        right = sum(n for (want, given), n in self.pairs.items() if want == given)
        yield f"{'all':{width}}  {right:5}  {self.pairs.total() - right}"
