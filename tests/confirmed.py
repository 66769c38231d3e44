"""The count of explained entries: how many torch's own evaluator confirmed, and why the others were not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.record import EntryMiss, Recording


@dataclass
class Confirmed:
    """Counts the entries of recordings by torch's verdict on what was claimed of them."""

    verdicts: Counter[str] = field(default_factory=Counter)

    def add(self, recording: Recording) -> None:
        """Count every entry that a compilation or a refusal explains."""
        self.verdicts.update(verdict(entry) for entry in explained(recording))

    def lines(self) -> Iterator[str]:
        """Yield how many were confirmed, and a line for each reason why the others were not."""
        yield f"confirmed by torch: {self.verdicts[CONFIRMED]} of {self.verdicts.total()} explained entries"
        for reason, count in sorted(self.verdicts.items()):
            if reason != CONFIRMED:
                yield f"  {count:5}  {reason}"


CONFIRMED = "confirmed"


def explained(recording: Recording) -> list[EntryMiss]:
    """Return every entry whose failing guards the recording names."""
    return [entry for c in recording.compilations if c.recompile is not None for entry in c.recompile.entries]


def verdict(entry: EntryMiss) -> str:
    """Return ``confirmed``, or why not, in the recording's own words."""
    if entry.confirmed is True:
        return CONFIRMED
    return entry.unconfirmed or ("contradicted by torch" if entry.confirmed is False else "not asked, without a reason")
