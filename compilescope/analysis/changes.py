"""Groups the root failures of an entry into changes: what changed, however many guards saw it.

One dimension that goes from 1 to 2 in 66 places, one new class for the processors of six layers, one new key in a
dict: each is one change. Pure functions over classified failures.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from compilescope.analysis.kinds import KINDS, SHAPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from compilescope.record import Failure

_PROPERTY: Final = re.compile(
    r"(?:\.(?:size|stride|dim|storage_offset)\(\)(?:\[\d+\])?|\.(?:dtype|device|requires_grad|_base))$"
)
_INDEX: Final = re.compile(r"\[\d+\]|(?<=\.)\d+(?=\.|$)")
# Kinds about one size by itself. Failures of that size elsewhere, or in relation to other sizes, follow from it.
_DIRECT: Final = ("zero_one", "divisibility", "size")
_RELATIONS: Final = ("duck_size", "shape_relation", "bound")
_CLASSES: Final = ("module_type", "type", "tensor_type", "object_id", "function_id")
_AROUND: Final = ("global_state", "torch_function_mode", "default_device")
_TENSOR_WIDE: Final = ("dtype", "device", "requires_grad")

Key = tuple[object, ...]
Pair = tuple[object, object]


def value_of(source: str) -> str:
    """Return the value whose property a source is: ``x`` of ``x.stride()[0]``."""
    return _PROPERTY.sub("", source)


def changes_of(roots: Sequence[Failure]) -> tuple[Failure, ...]:
    """Return one failure for each change, with the number of places where it was seen and the other sources."""
    gathered = _by_size(roots)
    found: dict[Key, list[Failure]] = {}
    for root in roots:
        found.setdefault(gathered.get(id(root)) or _key(root), []).append(root)
    return tuple(_one(group) for group in found.values())


def _family(failure: Failure) -> str:
    # A recording from a later version may hold unknown kinds.
    return KINDS.get(failure.kind or "unknown", KINDS["unknown"]).family


def _one(group: Sequence[Failure]) -> Failure:
    """Return the failure that says most about a change, to represent the group."""
    order = {kind: index for index, kind in enumerate((*_DIRECT, *_RELATIONS))}
    # A view's own size says more than the size of its base tensor.
    shown = min(group, key=lambda failure: (order.get(failure.kind or "", 0), "._base" in failure.source))
    # A relation that contains the changed size is counted but not named: it is not another change.
    alike = [failure for failure in group if failure.kind == shown.kind]
    others = dict.fromkeys(failure.source for failure in alike if failure.source != shown.source)
    return replace(shown, places=len(group), also=tuple(others))


# --- sizes ----------------------------------------------------------------------------------------


def _by_size(failures: Sequence[Failure]) -> dict[int, Key]:
    """Return the change that each failure about a size belongs to: the size's old and new value, wherever it occurs."""
    keys: dict[int, Key] = {}
    direct = [failure for failure in failures if failure.kind in _DIRECT]
    by_pair: dict[Pair, Key] = {}
    for failure in direct:
        pairs = _pairs(failure) or [(failure.expected, failure.actual)]
        key = next((by_pair[pair] for pair in pairs if pair in by_pair), (SHAPE, pairs[0]))
        by_pair |= dict.fromkeys(pairs, key)
        keys[id(failure)] = key
    related = [failure for failure in failures if failure.kind in _RELATIONS]
    pending = []
    for failure in related:
        followed = _follows(failure, by_pair, direct, keys)
        if followed is None:
            pending.append(failure)
        else:
            keys[id(failure)] = followed
    for failure in pending:
        pairs = _pairs(failure)
        known = next((by_pair[pair] for pair in pairs if pair in by_pair), None)
        key = known or ((SHAPE, pairs[0]) if pairs else _key(failure))
        by_pair |= dict.fromkeys(pairs, key)
        keys[id(failure)] = key
    return keys


def _pairs(failure: Failure) -> list[Pair]:
    return [(size.was, size.now) for size in failure.moved]


def _follows(
    relation: Failure, by_pair: Mapping[Pair, Key], direct: Sequence[Failure], keys: Mapping[int, Key]
) -> Key | None:
    """Return the change of a size that also makes a relation fail.

    A change does so if every changed size in the relation is that change, or if the old size was compiled into the
    relation as a constant: ``rope.size()[0] == 1 + image.size()[1]`` holds a text length of 1, and with a text length
    of 7 it is off by the same 6.
    """
    pairs = _pairs(relation)
    known = [by_pair[pair] for pair in pairs if pair in by_pair]
    if known and len(known) == len(pairs):
        return known[0]
    for change in direct:
        delta = _delta(change)
        if change.source in relation.symbols or (delta is not None and relation.off_by == delta):
            return keys[id(change)]
    return None


def _delta(change: Failure) -> int | None:
    was, now = _pairs(change)[0] if change.moved else (None, None)
    return abs(now - was) if isinstance(was, int) and isinstance(now, int) else None


# --- everything else ------------------------------------------------------------------------------


def _key(failure: Failure) -> Key:
    """Return a key that two failures share if they are one change."""
    kind, pair = failure.kind, (failure.expected, failure.actual)
    path = _INDEX.sub("[*]", failure.source)
    if _family(failure) == "layout":
        return kind, _INDEX.sub("[*]", value_of(failure.source))
    if kind in _CLASSES:
        return kind, pair, path.rpartition(".")[2]
    # For a module as a whole: train() and to() reach every submodule and parameter.
    if kind == "module_training" or (kind in _TENSOR_WIDE and failure.holder == "module"):
        return kind, pair
    return kind, pair, path


def is_shape_only(changes: Iterable[Failure]) -> bool:
    """Whether there are changes and all are of shape kinds."""
    found = list(changes)
    return bool(found) and all(_family(change) == SHAPE for change in found)


def decisive_first(changes: Sequence[Failure]) -> tuple[Failure, ...]:
    """Put other changes before changes of shape, and bounds, which say least, last.

    Among the other changes, ambient state comes first, since it also changes tensors, and then a different class:
    modules of a different class often differ in a flag as well.
    """
    rank: Callable[[Failure], tuple[bool, ...]] = lambda change: (  # noqa: E731 (a sort key with its type)
        _family(change) == SHAPE,
        change.kind == "bound",
        change.kind not in _AROUND,
        change.kind not in ("module_type", "type", "tensor_type"),
    )
    return tuple(sorted(changes, key=rank))
