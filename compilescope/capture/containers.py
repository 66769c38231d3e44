"""Containers that differ: which keys or members were added or removed, or the new length. One fact, one failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.capture import describe
from compilescope.capture.compiled_for import members_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compilescope.capture.refused_leaf import Asked
    from compilescope.record import Failure

_FEW: Final = 8
# The names of submodules are mostly numbers: their count says more.
_SUBMODULES: Final = "._modules"
# Guards that check for one key, whatever other keys there are.
_ONE_KEY: Final = ("MISSING", "DICT_CONTAINS", "SET_CONTAINS")


def changed(asked: Asked, length: str | None = None, *, key: str | None = None, absent: bool = False) -> Failure:
    """Describe a container that a guard on its keys, its members or its length refused.

    Args:
        asked: the refused guard; its source and value are those of the container.
        length: the length that the guard expects, as text, if any.
        key: the key that the guard checks for, if any.
        absent: whether that key is expected to be absent.
    """
    value = asked.value
    sort = describe.type_name(value)
    if asked.was is not None and sort != asked.was.type_name:
        guard = f"type({asked.name}) is {asked.was.type_name}"
        return asked.failure(asked.was.type_name, sort, part="type", guard=guard)
    if isinstance(value, dict | set | frozenset) and not asked.source.endswith(_SUBMODULES):
        was, now = asked.was.members if asked.was is not None else None, members_of(value)
        if was is not None and now is not None:
            return _members(asked, was, now)
    if key is not None:
        told = ("no key " if absent else "key ", "key " if absent else "no key ")
        part = "keys" if isinstance(value, dict) else "members"
        return asked.failure(f"{told[0]}{key}", f"{told[1]}{key}", part=part)
    have = f"length {len(value)}" if hasattr(value, "__len__") else "no length"
    known = asked.was.length if asked.was is not None else None
    expected = f"length {length if known is None else known}"
    return asked.failure(expected, have, part="dict" if isinstance(value, dict) else None)


def _members(asked: Asked, was: Sequence[str], now: Sequence[str]) -> Failure:
    went = [member for member in was if member not in now]
    came = [member for member in now if member not in was]
    if isinstance(asked.value, dict):
        if not went and not came:
            return asked.failure(_keys(was), _keys(now), part="order", guard=f"{asked.name} has its keys in this order")
        whole = {} if asked.guard_type in _ONE_KEY else {"guard": f"{asked.name} has the keys it was compiled with"}
        return asked.failure(_delta(went, came), _delta(came, went), part="keys", **whole)
    if max(len(was), len(now)) > _FEW:
        return asked.failure(_delta(went, came, "member"), _delta(came, went, "member"), part="members")
    expected = asked.was.text if asked.was is not None else _delta(went, came, "member")
    actual = describe.value(asked.value)
    if actual == expected:
        actual = describe.type_name(asked.value)
    known = asked.was.type_name if asked.was is not None else None
    return asked.failure(expected, actual, part="members", expected_type=known)


def _keys(keys: Sequence[str]) -> str:
    return describe.shorten(f"order {', '.join(keys)}")


def _delta(here: Sequence[str], there: Sequence[str], word: str = "key") -> str:
    """Say what is only on this side, and what is only on the other: ``key 'a', no key 'b'``."""
    told = [f"{word} {member}" for member in here[:_FEW]] + [f"no {word} {member}" for member in there[:_FEW]]
    more = max(len(here) - _FEW, 0) + max(len(there) - _FEW, 0)
    return describe.shorten(", ".join(told) + (f" and {more} more" if more else ""), 160)
