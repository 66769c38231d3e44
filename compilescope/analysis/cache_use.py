"""How many of its cache entries each code object uses, and which modules share them. Pure; imports no torch.

The recompile limit counts the entries of a code object. If one wrapper runs for several modules, they share the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.record import Compilation, Recording


@dataclass(frozen=True, slots=True)
class CacheUse:
    """The entries of one code object at the end of the run.

    Attributes:
        code: its id.
        used: entries in use.
        limit: the maximum number of entries.
        owners: the modules or functions that they were compiled for, if the code object is a shared wrapper.
    """

    code: str
    used: int
    limit: int
    owners: tuple[str, ...]

    @property
    def nearly_full(self) -> bool:
        """Whether at most one more entry fits."""
        return self.used >= self.limit - 1

    @property
    def shared(self) -> bool:
        """Whether several modules share one limit, and at least half of it is used."""
        return len(self.owners) > 1 and self.used * 2 >= self.limit


def cache_uses(recording: Recording) -> tuple[CacheUse, ...]:
    """Return the use of every code object that was compiled; except those whose limit was not recorded."""
    return tuple(_uses(recording))


def _uses(recording: Recording) -> Iterator[CacheUse]:
    by_code: dict[str, list[Compilation]] = {}
    for compilation in recording.compiled:
        by_code.setdefault(compilation.code, []).append(compilation)
    for code, compiled in by_code.items():
        limit = compiled[-1].limit
        if limit is None:
            continue
        # The entries that the newest one was matched against, plus itself: a reset or an isolated region starts again.
        older = compiled[-1].recompile
        used = 1 if older is None else len(older.entries) + 1
        owners = dict.fromkeys(entry.owner for entry in compiled[-used:] if entry.owner is not None)
        yield CacheUse(code, used, limit, tuple(owners))
