"""Marks values that one entry refuses and another accepts: the new frame only went back to a known value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compilescope.capture.guard_tree import Node
    from compilescope.record import EntryMiss, Failure

_AMBIENT: Final = "ambient"
_OF_TENSOR: Final = re.compile(r"(?:\.(?:size|stride|storage_offset)\(\)(?:\[\d+\])?)?")


@dataclass(frozen=True, slots=True)
class Examined:
    """An entry that was examined for a frame.

    Attributes:
        miss: what was found.
        at: for each of its failures, the sources that it is about, as Dynamo writes them.
        root: the root of its guard tree; None if it was discarded or could not be read.
    """

    miss: EntryMiss
    at: tuple[tuple[str, ...], ...] = ()
    root: Node | None = None


def marked(examined: Sequence[Examined]) -> tuple[EntryMiss, ...]:
    """Return the misses, each root failure marked if another of the entries guards the same value and accepts it."""
    return tuple(_marked(one, [other for other in examined if other is not one]) for one in examined)


def _marked(one: Examined, others: Sequence[Examined]) -> EntryMiss:
    if not others or not one.at:
        return one.miss
    failing = tuple(
        replace(failure, accepted_elsewhere=True)
        if failure.consequence_of is None and any(_accepts(other, failure, at) for other in others)
        else failure
        for failure, at in zip(one.miss.failing, one.at, strict=True)
    )
    return replace(one.miss, failing=failing)


def _accepts(other: Examined, failure: Failure, at: tuple[str, ...]) -> bool:
    if other.root is None or any(_covers(refused.source, failure.source) for refused in other.miss.failing):
        return False
    if failure.holder == _AMBIENT:
        return True  # every entry guards ambient state
    root = other.root
    return bool(at) and all(_guards(root, source) for source in at)


def _covers(refused: str, source: str) -> bool:
    """Whether a refused value is the one at ``source``, or one that contains it."""
    return source == refused or source.startswith((f"{refused}.", f"{refused}["))


def _guards(node: Node, source: str) -> bool:
    """Whether a guard is on the value at ``source``, or on the tensor whose size or stride that is."""
    for child in node.children:
        # The content of a __dict__ is named as attributes.
        path = child.by_position.removesuffix(".__dict__")
        if not source.startswith(path):
            continue
        held = bool(child.manager.get_leaf_guards()) or child.is_dict or not child.children
        if (held and _OF_TENSOR.fullmatch(source.removeprefix(path))) or _guards(child, source):
            return True
    return False
