"""Explains recompiles: what changed since each older entry, the closest of them, whether shapes drove it.

Pure functions over a recording. :func:`explain` takes one as capture left it, in which failing guards
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

# What a frame runs for: its own module, or the one behind Dynamo's wrapper.
_RUNS_FOR: Final = ("self", "fn", "args[0]")
_OTHER_CLASS: Final = ("module_type", "type")


def classify(failure: Failure) -> Failure:
    """Return the failure with its kind and the general advice for it."""
    kind = kind_of(failure)
    return replace(failure, kind=kind, advice=KINDS[kind].advice.replace("{source}", value_of(failure.source)))


def explain_entry(entry: EntryMiss) -> EntryMiss:
    """Return the entry with every failure classified, and what merely follows from another marked so."""
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
            # The strides of a contiguous tensor are what its sizes make them: where those fail, these do.
            cause = sized.get(value_of(failure.source))
        marked.append(replace(failure, consequence_of=cause))
    return marked


def _follows_form(failure: Failure, reshaped: Mapping[str, Failure]) -> str | None:
    """Of a tensor of another rank no relation holds that reads it, and of another memory format none of strides."""
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
    """Return the failures of an entry that follow from no other."""
    return tuple(failure for failure in entry.failing if failure.consequence_of is None)


def explain_recompile(recompile: Recompile) -> Recompile:
    """Choose the closest entry and say what changed since it was compiled."""
    entries = tuple(explain_entry(entry) for entry in recompile.entries)
    if not entries:
        return replace(recompile, shape_driven=None)
    changes = {entry.id: changes_of(roots_of(entry)) for entry in entries}
    known = {identity: _known(identity, changes) for identity in changes}
    # Among equals the one that was used last: what changed since then is what the user did.
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
    """Count the changes since an entry that only undo what had changed by then: other entries know their values.

    Known is a value that another entry accepts, or whose type another entry was compiled for: of a step that was
    None, then 1 and is 2, what is new is that 1 became 2.
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
        # It is there now, of the type that the others find.
        return bool(kept - {None})
    was, now = _type_name(change.expected_type), _type_name(change.actual_type)
    return was != now and now in kept - {None}


def _type_name(name: str | None) -> str | None:
    return None if name is None else name.rpartition(".")[2]


def _distance(changes: Sequence[Failure], known: int) -> tuple[bool | int, ...]:
    """Say how far a frame is from an entry.

    An entry that matches by now is nearest, and one that was thrown away is farthest: nothing is known of what else
    had changed since. One of another class is farther than any of the same class, and one that
    shapes alone keep from matching is nearer than any that something else does. One that the frame would have to go
    back to is farther: that a switch is off again, as it was for an older entry, made nobody compile. And what bars
    an entry with dynamic sizes says more than that an old static entry has another size.
    """
    other_class = any(change.source in _RUNS_FOR and change.kind in _OTHER_CLASS for change in changes)
    shapes = is_shape_only(changes)
    static = shapes and any(change.guard_type == "TENSOR_MATCH" and change.part == "size" for change in changes)
    thrown_away = any(change.kind == "invalidated" for change in changes)
    return thrown_away, not _is_concurrent(changes), other_class, not shapes, known, static, len(changes)


def _is_concurrent(changes: Sequence[Failure]) -> bool:
    return any(change.kind == "concurrent" for change in changes)


def _alternatives(closest: str, changes: Mapping[str, tuple[Failure, ...]], confirmed: set[str]) -> tuple[str, ...]:
    """Return the other entries that came as near, or would have matched but for one change; each change once.

    Only where torch has said that nothing else kept them from it.
    """
    told = {_signature(changes[closest])}
    found: list[str] = []
    for identity, of_entry in reversed(list(changes.items())):
        signature = _signature(of_entry)
        near = len(of_entry) == 1 or len(of_entry) == len(changes[closest])
        near = near and not _is_older_static(of_entry, changes[closest])
        if near and identity in confirmed and signature not in told:
            told.add(signature)
            found.append(identity)
    return tuple(found)


def _is_older_static(changes: Sequence[Failure], closest: Sequence[Failure]) -> bool:
    """Whether an entry is off by a static size that bars the closest entry too, where it is dynamic already."""
    dynamic = {change.source for change in closest if _is_of_shape(change) and change.kind != "size"}
    return all(change.kind == "size" and dynamic & {change.source, *change.also} for change in changes)


def _signature(changes: Sequence[Failure]) -> frozenset[tuple[str, str]]:
    # By family: an entry off by the size of an input and one off by 0 or 1 of it are off by the same thing.
    return frozenset((KINDS[change.kind or "unknown"].family, change.source) for change in changes)


def explain_compilation(compilation: Compilation) -> Compilation:
    """Return the compilation with its recompile explained, if it is one."""
    if compilation.recompile is None:
        return compilation
    return replace(compilation, recompile=explain_recompile(compilation.recompile))


def explain(recording: Recording) -> Recording:
    """Return the recording with every recompile explained. Explaining twice changes nothing."""
    return replace(recording, compilations=tuple(explain_compilation(c) for c in recording.compilations))
