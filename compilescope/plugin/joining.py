"""Joins the recordings of many tests into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from compilescope.storage import merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compilescope.record import Compilation, Recording


def joined(recordings: Iterable[Recording]) -> Recording:
    """Merge ``recordings``, each of which began with an empty cache.

    Dynamo counts compilations anew after each reset. As within one recording, ``#n`` is appended
    where an id comes again, and the entries that a recompile speaks of are renamed with it.

    Raises:
        ValueError: there is nothing to merge.
    """
    seen: dict[str, int] = {}
    return merge(_renumbered(recording, seen) for recording in recordings)


def _renumbered(recording: Recording, seen: dict[str, int]) -> Recording:
    names: dict[str, str] = {}
    for one in recording.compilations:
        bare = one.id.partition("#")[0]
        times = seen[bare] = seen.get(bare, 0) + 1
        names[one.id] = bare if times == 1 else f"{bare}#{times}"
    return replace(recording, compilations=tuple(_renamed(recording.compilations, names)))


def _renamed(compilations: Iterable[Compilation], names: dict[str, str]) -> Iterator[Compilation]:
    for one in compilations:
        why = one.recompile
        if why is not None:
            why = replace(
                why,
                closest=None if why.closest is None else names.get(why.closest, why.closest),
                alternatives=tuple(names.get(entry, entry) for entry in why.alternatives),
                entries=tuple(replace(miss, id=names.get(miss.id, miss.id)) for miss in why.entries),
            )
        yield replace(one, id=names[one.id], recompile=why)
