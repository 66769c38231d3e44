"""Explains recompiles: what changed since each older entry, the closest of them, whether shapes drove it.

Pure functions over a recording. :func:`explain` takes a recording from capture, in which failing guards
are bare facts, and returns one in which they are causes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from compilescope.analysis.changes import changes_of, decisive_first, is_shape_only, value_of
from compilescope.analysis.failure_kinds import kind_of
from compilescope.analysis.kinds import KINDS, SHAPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from compilescope.record import Compilation, EntryMiss, Failure, Recompile, Recording

# What a frame runs for: its own module, or the one that Dynamo's wrapper calls.
_RUNS_FOR: Final = ("self", "fn", "args[0]")
_OTHER_CLASS: Final = ("module_type", "type")


def classify(failure: Failure) -> Failure:
    """Return the failure with its kind and the general advice for it."""
    kind = kind_of(failure)
    return replace(failure, kind=kind, advice=KINDS[kind].advice.replace("{source}", value_of(failure.source)))


def explain_entry(entry: EntryMiss) -> EntryMiss:
    """Return the entry with every failure classified, and each one that only follows from another marked."""
    failing = [classify(failure) for failure in entry.failing]
    return replace(entry, failing=tuple(_mark_consequences(failing)))


def _mark_consequences(failing: Sequence[Failure]) -> list[Failure]:
    sized = {value_of(name): name for f in failing if _is_of_shape(f) for name in (f.source, *f.symbols)}
    reshaped = {value_of(f.source): f for f in failing if f.part in ("rank", "memory_format")}
    retyped = {f.source for f in failing if f.kind == "tensor_type" and f.consequence_of is None}
    marked: list[Failure] = []
    for failure in failing:
        cause = failure.consequence_of or _follows_form(failure, reshaped)
        if cause is None and failure.kind == "dispatch_keys" and failure.source in retyped:
            cause = failure.source
        if cause is None and failure.part == "dense_stride":
            # The sizes of a contiguous tensor determine its strides: if the sizes fail, so do the strides.
            cause = sized.get(value_of(failure.source))
        marked.append(replace(failure, consequence_of=cause))
    return marked


def _follows_form(failure: Failure, reshaped: Mapping[str, Failure]) -> str | None:
    """Return the source whose rank or memory format changed, which breaks every relation on its sizes or strides."""
    if failure.part == "base":
        return None
    for name in failure.symbols:
        form = reshaped.get(value_of(name))
        if form is not None and (form.part == "rank" or ".stride()" in name):
            return form.source
    return None


def _is_of_shape(failure: Failure) -> bool:
    return KINDS[failure.kind or "unknown"].family == SHAPE


def roots_of(entry: EntryMiss) -> tuple[Failure, ...]:
    """Return the failures of an entry that do not follow from another."""
    return tuple(failure for failure in entry.failing if failure.consequence_of is None)


def explain_recompile(recompile: Recompile) -> Recompile:
    """Choose the closest entry and say what changed since it was compiled."""
    entries = tuple(explain_entry(entry) for entry in recompile.entries)
    if not entries:
        return replace(recompile, shape_driven=None)
    changes = {entry.id: changes_of(roots_of(entry)) for entry in entries}
    known = {identity: _known(identity, changes) for identity in changes}
    # Among equally close entries, the one used last: the changes since then are what the user did.
    index = {entry.id: (entry.recency or 0, -number) for number, entry in enumerate(entries)}
    closest = min(changes, key=lambda identity: (*_distance(changes[identity], known[identity]), index[identity]))
    served = _is_concurrent(changes[closest])
    confirmed = {entry.id for entry in entries if entry.confirmed}
    return replace(
        recompile,
        entries=entries,
        closest=closest,
        causes=decisive_first(changes[closest]),
        alternatives=() if served else _alternatives(closest, changes, confirmed),
        shape_driven=not served and any(is_shape_only(found) for found in changes.values()),
    )


def _known(identity: str, changes: Mapping[str, Sequence[Failure]]) -> int:
    """Count the changes since an entry whose new value is already known to another entry.

    A value is known if another entry accepts it, or was compiled for its type: if a step was None, then 1 and is now
    2, the news is that 1 became 2.
    """
    others = [change for other, found in changes.items() if other != identity for change in found]
    return sum(change.accepted_elsewhere or _type_known(change, others) for change in changes[identity])


def _type_known(change: Failure, others: Sequence[Failure]) -> bool:
    same = [other for other in others if other.source == change.source]
    kept = {
        _type_name(other.actual_type)
        for other in same
        if _type_name(other.expected_type) == _type_name(other.actual_type)
    }
    if change.kind == "attr_added":
        # The attribute exists now, with the type that the other entries expect.
        return bool(kept - {None})
    was, now = _type_name(change.expected_type), _type_name(change.actual_type)
    return was != now and now in kept - {None}


def _type_name(name: str | None) -> str | None:
    return None if name is None else name.rpartition(".")[2]


def _distance(changes: Sequence[Failure], known: int) -> tuple[bool | int, ...]:
    """Say how far a frame is from an entry.

    An entry that matches by now is nearest; a discarded one is farthest, because what else changed since then is
    unknown. An entry for another class is farther than any for the same class, and one that only shapes keep from
    matching is nearer than any other. An entry is farther if the change only goes back to a value that another entry
    knows: a flag that is off again, as for an older entry, does not cause a recompile. And what keeps an entry with
    dynamic sizes from matching says more than the different size of an old static entry.
    """
    other_class = any(change.source in _RUNS_FOR and change.kind in _OTHER_CLASS for change in changes)
    shapes = is_shape_only(changes)
    static = shapes and any(change.guard_type == "TENSOR_MATCH" and change.part == "size" for change in changes)
    thrown_away = any(change.kind == "invalidated" for change in changes)
    return thrown_away, not _is_concurrent(changes), other_class, not shapes, known, static, len(changes)


def _is_concurrent(changes: Sequence[Failure]) -> bool:
    return any(change.kind == "concurrent" for change in changes)


def _alternatives(closest: str, changes: Mapping[str, tuple[Failure, ...]], confirmed: set[str]) -> tuple[str, ...]:
    """Return the other entries that are as close, or one change away from matching; each change once.

    Only entries for which torch confirmed that nothing else keeps them from matching.
    """
    seen = {_signature(changes[closest])}
    found: list[str] = []
    for identity, of_entry in reversed(list(changes.items())):
        signature = _signature(of_entry)
        near = len(of_entry) == 1 or len(of_entry) == len(changes[closest])
        near = near and not _is_older_static(of_entry, changes[closest])
        if near and identity in confirmed and signature not in seen:
            seen.add(signature)
            found.append(identity)
    return tuple(found)


def _is_older_static(changes: Sequence[Failure], closest: Sequence[Failure]) -> bool:
    """Whether an entry only fails on a static size that is already dynamic in the closest entry and fails there too."""
    dynamic = {change.source for change in closest if _is_of_shape(change) and change.kind != "size"}
    return all(change.kind == "size" and dynamic & {change.source, *change.also} for change in changes)


def _signature(changes: Sequence[Failure]) -> frozenset[tuple[str, str]]:
    # By family: failing on the size of an input and failing on its 0 or 1 are the same difference.
    return frozenset((KINDS[change.kind or "unknown"].family, change.source) for change in changes)


def explain_compilation(compilation: Compilation) -> Compilation:
    """Return the compilation with its recompile explained, if it is one."""
    if compilation.recompile is None:
        return compilation
    return replace(compilation, recompile=explain_recompile(compilation.recompile))


def explain(recording: Recording) -> Recording:
    """Return the recording with every recompile explained. Explaining twice changes nothing."""
    return replace(recording, compilations=tuple(explain_compilation(c) for c in recording.compilations))
