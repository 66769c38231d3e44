"""What no single leaf guard says: relations between values, discarded entries, other backends, unknown causes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final

import torch

from compilescope.capture import _torch, describe, guard_expressions
from compilescope.record import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.capture.refused_leaf import Frame

_LENGTH: Final = re.compile(r"^len\((.+)\) != (\d+)$")


def relation(text: str, frame: Frame) -> Iterator[tuple[tuple[str, str], Failure]]:
    """Check a relational guard by identity; storage overlap cannot be checked so, and is left to the caller.

    Its values are written in full: ``list(dict.keys(d))[11] is x`` is about a key, not the dict.

    Yields:
        The two values, in Dynamo's words, and the failure.
    """
    expression = guard_expressions.split(text)[0]
    if guard_expressions.compiled(expression) is None:
        return
    match ast.parse(expression, mode="eval").body:
        case ast.Call(func=ast.Name(id="check_no_aliasing"), args=values):
            names = [ast.unparse(value) for value in values]
            pairs = [(a, b) for index, a in enumerate(names) for b in names[index + 1 :]]
            expected, actual, must_be_one = "different tensors", "one tensor for both", False
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[right]):
            pairs = [(ast.unparse(left), ast.unparse(right))]
            expected, actual, must_be_one = "one object for both", "two objects", True
        case _:
            return
    place = frame.shape_place(text)
    for first, second in pairs:
        if _are_one(first, second, frame.scope, tensors=not must_be_one) is (not must_be_one):
            yield (
                (first, second),
                Failure(
                    source=f"{frame.written(first)}, {frame.written(second)}",
                    guard=describe.shorten(describe.source(expression), 200),
                    expected=expected,
                    actual=actual,
                    where=place.user,
                    torch_where=place.torch,
                    guard_type="OBJECT_ALIASING" if must_be_one else "NO_TENSOR_ALIASING",
                    part="aliasing",
                ),
            )


def _are_one(first: str, second: str, scope: dict[str, Any], *, tensors: bool) -> bool | None:
    """Whether two expressions are one object now; None if one cannot be reached or is no longer a tensor."""
    try:
        one, other = guard_expressions.evaluate(first, scope), guard_expressions.evaluate(second, scope)
    except Exception:  # noqa: BLE001 (a value out of reach is reported where it is missing)
        return None
    if tensors and not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return None
    return one is other


def invalidated(reason: str) -> Failure:
    """Describe an entry whose guards Dynamo discarded."""
    return Failure(
        source="cache entry",
        guard=describe.shorten(describe.source(reason), 200),
        expected="the guarded object alive",
        actual="freed",
        guard_type="INVALIDATED",
        holder="ambient",
    )


def other_backend(old: object, new: object) -> Failure:
    """Describe an entry that would have matched if the call had used its backend."""
    return Failure(
        source="backend",
        guard="the backend is unchanged",
        expected=backend_name(old),
        actual=backend_name(new) if backend_name(new) != backend_name(old) else f"another callable {backend_name(new)}",
        guard_type="BACKEND_MATCH",
        holder="ambient",
    )


def concurrent() -> Failure:
    """Describe an entry that another thread compiled while this one waited to compile: it matches the frame now."""
    return Failure(
        source="cache entry",
        guard="no guard fails: another thread has compiled it in the meantime",
        expected="one compilation",
        actual="another thread compiled the same code",
        guard_type="CONCURRENT",
        holder="ambient",
    )


def backend_name(backend: object) -> str:
    """Return the name of a backend: ``eager``, ``inductor``, or that of the user's function."""
    inner = _torch.innermost_backend(backend)
    name = getattr(inner, "compiler_name", None) or getattr(inner, "__qualname__", None)
    return str(name) if name else describe.type_name(inner)


def unknown(text: str) -> Failure:
    """Describe a miss that no guard examined here explains, by Dynamo's own words."""
    expression, comment = guard_expressions.split(text) if text else ("", "")
    length = _LENGTH.match(expression)
    if length is not None:
        # The guard manager of an empty dict has no leaf: it reports this itself.
        return Failure(
            source=describe.source(length[1]),
            guard=f"len({describe.source(length[1])}) == {length[2]}",
            expected=f"length {length[2]}",
            actual="a different length",
            where=describe.location_in(comment),
            guard_type="DICT_LENGTH",
            part="dict",
        )
    return Failure(
        source=describe.shorten(describe.source(expression)) or "cache entry",
        guard=describe.shorten(describe.source(expression), 200) or "no guard fails when checked again",
        expected="a match",
        actual="no match",
        where=describe.location_in(comment),
        guard_type="UNKNOWN",
    )
