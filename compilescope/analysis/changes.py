"""Gathers the root failures of an entry into changes: what changed in the world, however many guards saw it.

One dimension that went from 1 to 2 at 66 places, one class that the processors of six layers now have, one key that
a dict gained: each is one change. Pure functions over classified failures.
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
# Kinds that are about one size by itself. What a size has at other places, or in relation to others, follows from it.
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
    """Return one failure for each change, with the number of places that it was seen at and the other sources."""
    gathered = _by_size(roots)
    found: dict[Key, list[Failure]] = {}
    for root in roots:
        found.setdefault(gathered.get(id(root)) or _key(root), []).append(root)
    return tuple(_one(group) for group in found.values())


def _family(failure: Failure) -> str:
    # A recording that others made may hold kinds of a later version.
    return KINDS.get(failure.kind or "unknown", KINDS["unknown"]).family


def _one(group: Sequence[Failure]) -> Failure:
    """Return the failure that says most of a change, for all of them."""
    order = {kind: index for index, kind in enumerate((*_DIRECT, *_RELATIONS))}
    # Of a view its own size says more than that of the tensor behind it.
    told = min(group, key=lambda failure: (order.get(failure.kind or "", 0), "._base" in failure.source))
    # A relation in which the changed size stands is counted, and not named: it is not another thing that changed.
    alike = [failure for failure in group if failure.kind == told.kind]
    others = dict.fromkeys(failure.source for failure in alike if failure.source != told.source)
    return replace(told, places=len(group), also=tuple(others))


# --- sizes ----------------------------------------------------------------------------------------


def _by_size(failures: Sequence[Failure]) -> dict[int, Key]:
    """Return the change that each failure about a size belongs to: the size's old and new value, whoever carries it."""
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
    return [(moved.was, moved.now) for moved in failure.moved]


def _follows(
    relation: Failure, by_pair: Mapping[Pair, Key], direct: Sequence[Failure], keys: Mapping[int, Key]
) -> Key | None:
    """Return the change of a size that makes a relation fail too.

    It does if the relation reads no size that changed in another way, and if it was compiled into the relation as a
    constant: ``rope.size()[0] == 1 + image.size()[1]`` holds a text length of 1, and with a text of 7 it is off by
    the same 6.
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
    """Return what two failures have in common that are one change."""
    kind, pair = failure.kind, (failure.expected, failure.actual)
    path = _INDEX.sub("[*]", failure.source)
    if _family(failure) == "layout":
        return kind, _INDEX.sub("[*]", value_of(failure.source))
    if kind in _CLASSES:
        return kind, pair, path.rpartition(".")[2]
    # Of a module as a whole: train() and to() reach every submodule and parameter.
    if kind == "module_training" or (kind in _TENSOR_WIDE and failure.holder == "module"):
        return kind, pair
    return kind, pair, path


def is_shape_only(changes: Iterable[Failure]) -> bool:
    """Whether there are changes and all of them are of shape kinds."""
    found = list(changes)
    return bool(found) and all(_family(change) == SHAPE for change in found)


def decisive_first(changes: Sequence[Failure]) -> tuple[Failure, ...]:
    """Put what general shapes would not have avoided before what they would, and bounds, which say least, last.

    Of the former what surrounds the call comes first, which changes tensors too, and then another class: modules of
    another class tend to differ in a flag beside it.
    """
    rank: Callable[[Failure], tuple[bool, ...]] = lambda change: (  # noqa: E731 (a sort key with its type)
        _family(change) == SHAPE,
        change.kind == "bound",
        change.kind not in _AROUND,
        change.kind not in ("module_type", "type", "tensor_type"),
    )
    return tuple(sorted(changes, key=rank))
