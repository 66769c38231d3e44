"""Misses that no single leaf tells: relations between values, entries thrown away, other backends, the unknown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from compilescope.capture import _torch, describe, expressions
from compilescope.record import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALIASING: Final = re.compile(r"^check_no_aliasing\((?P<sources>.+)\)$", re.DOTALL)
_LENGTH: Final = re.compile(r"^len\((.+)\) != (\d+)$")


def relation(guard_type: str, text: str, scope: dict[str, Any]) -> Iterator[Failure]:
    """Check a relational guard by identity; storage overlap, which cannot be, is left to the caller's last resort."""
    expression, comment = expressions.split(text)
    found = _ALIASING.match(expression)
    names = [s.text for s in expressions.symbols(expression)]
    try:
        values = [expressions.evaluate(name, scope) for name in names]
    except Exception:  # noqa: BLE001 (a value out of reach is reported where it is missing)
        return
    if found is not None:
        pairs = ((a, b) for i, a in enumerate(names) for b in names[i + 1 :])
        same = [(a, b) for a, b in pairs if values[names.index(a)] is values[names.index(b)]]
        expected, actual = "different tensors", "one tensor for both"
    elif guard_type == "OBJECT_ALIASING" and len(names) == 2:  # noqa: PLR2004 (a relation between two)
        same = [(names[0], names[1])] if values[0] is not values[1] else []
        expected, actual = "one object for both", "two objects"
    else:
        return
    for first, second in same:
        yield Failure(
            source=f"{describe.source(first)}, {describe.source(second)}",
            guard=describe.source(expression),
            expected=expected,
            actual=actual,
            where=describe.location_in(comment),
            guard_type=guard_type,
            part="aliasing",
        )


def invalidated(reason: str) -> Failure:
    """Describe an entry whose guards Dynamo threw away."""
    return Failure(
        source="cache entry",
        guard=describe.shorten(describe.source(reason), 200),
        expected="the guarded object alive",
        actual="freed",
        guard_type="INVALIDATED",
        holder="ambient",
    )


def other_backend(old: object, new: object) -> Failure:
    """Describe an entry that would have served, had the call asked for its backend."""
    return Failure(
        source="backend",
        guard="the backend is the one it was compiled for",
        expected=backend_name(old),
        actual=backend_name(new) if backend_name(new) != backend_name(old) else f"another callable {backend_name(new)}",
        guard_type="BACKEND_MATCH",
        holder="ambient",
    )


def backend_name(backend: object) -> str:
    """Return the name of a backend: ``eager``, ``inductor``, or that of the user's function."""
    inner = _torch.innermost_backend(backend)
    name = getattr(inner, "compiler_name", None) or getattr(inner, "__qualname__", None)
    return str(name) if name else describe.type_name(inner)


def unknown(text: str) -> Failure:
    """Describe a miss that no guard examined here explains, by Dynamo's own words."""
    expression, comment = expressions.split(text) if text else ("", "")
    length = _LENGTH.match(expression)
    if length is not None:
        # The manager of an empty dict holds no leaf: it says this of itself.
        return Failure(
            source=describe.source(length[1]),
            guard=f"len({describe.source(length[1])}) == {length[2]}",
            expected=f"length {length[2]}",
            actual="another length",
            where=describe.location_in(comment),
            guard_type="DICT_LENGTH",
            part="dict",
        )
    return Failure(
        source=describe.shorten(describe.source(expression)) or "cache entry",
        guard=describe.shorten(describe.source(expression), 200) or "no guard fails when asked again",
        expected="a match",
        actual="no match",
        where=describe.location_in(comment),
        guard_type="UNKNOWN",
    )
