"""What advice needs to know beside a failing guard: pins, marks, and what the code does with a value.

It is read from what is there: no code of the user's runs.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

import torch
from msgspec.structs import replace

from compilescope.capture import describe
from compilescope.capture.size_pins import size_pins
from compilescope.capture.value_uses import use_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.capture.call import CompileCall
    from compilescope.record import EntryMiss, Failure, Location, Mark, Use

_MARKS: Final[Mapping[str, Mark]] = {
    "_dynamo_unbacked_indices": "unbacked",
    "_dynamo_dynamic_indices": "dynamic",
    "_dynamo_weak_dynamic_indices": "weakly dynamic",
    "_dynamo_static_indices": "static",
}
_VALUES: Final = ("int", "float", "bool")
_SIZE: Final = ".size()["


Pins = dict[str, "Location"]
"""The lines that pinned the sizes of an entry, by source in the user's words."""


def pins_in(environment: object) -> Pins:
    """Return what the shape environment of a new entry says; nothing where there is none."""
    found = {} if environment is None else size_pins(environment)
    return {describe.source(source): place for source, place in found.items()}


def with_evidence(miss: EntryMiss, call: CompileCall, pins: Pins) -> EntryMiss:
    """Return the missed entry with what is known of each failure while the new frame is at hand."""
    return replace(miss, failing=tuple(_with(failure, call.locals, pins) for failure in miss.failing))


def with_uses(miss: EntryMiss) -> EntryMiss:
    """Return the missed entry with what the code does with each value, which reads and parses the user's source."""
    return replace(miss, failing=tuple(replace(failure, use=_use(failure)) for failure in miss.failing))


def _with(failure: Failure, f_locals: Mapping[str, object], pins: Mapping[str, Location]) -> Failure:
    if _SIZE not in failure.source:
        return replace(failure, pinned_by=pins.get(failure.source))
    holder, value = _reach(failure.source.partition(_SIZE)[0], f_locals)
    return replace(
        failure,
        pinned_by=pins.get(failure.source),
        registered=_registered(holder, value),
        marked=_mark(value, failure.source),
    )


def _use(failure: Failure) -> Use | None:
    if failure.where is None or failure.actual_type not in _VALUES:
        return None
    file = describe.absolute(failure.where.file)
    return None if file is None else use_of(failure.source, file, failure.where.line)


def _registered(holder: object, value: object) -> Any:  # noqa: ANN401 (a literal of the record's)
    if not isinstance(holder, torch.nn.Module) or value is None:
        return None
    kinds = {"parameter": "_parameters", "buffer": "_buffers"}
    return next((kind for kind, name in kinds.items() if _holds(vars(holder).get(name, {}), value)), None)


def _holds(members: Mapping[str, object], value: object) -> bool:
    return any(member is value for member in members.values())


def _mark(value: object, source: str) -> Mark | None:
    if not isinstance(value, torch.Tensor):
        return None
    dimension = int(source.rpartition("[")[2].rstrip("]"))
    return next((mark for name, mark in _MARKS.items() if dimension in vars(value).get(name, ())), None)


def _reach(source: str, f_locals: Mapping[str, object]) -> tuple[object, object]:
    """Return what holds the value at a source, and the value; None for what only the user's code could reach."""
    try:
        node = ast.parse(source, mode="eval").body
    except SyntaxError:
        return None, None
    match node:
        case ast.Name(id=name):
            return None, f_locals.get(name)
        case ast.Attribute(value=owner, attr=name):
            _, holder = _reach(ast.unparse(owner), f_locals)
            return holder, _member(holder, name)
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
            _, holder = _reach(ast.unparse(owner), f_locals)
            return holder, _item(holder, key)
    return None, None


def _member(holder: object, name: str) -> object:
    own = getattr(holder, "__dict__", {})
    for members in (own, *(own.get(kind, {}) for kind in ("_modules", "_parameters", "_buffers"))):
        if name in members:
            return members[name]
    return None


def _item(holder: object, key: object) -> object:
    if isinstance(holder, torch.nn.Module):
        return _member(holder, str(key))
    if isinstance(holder, list | tuple) and isinstance(key, int):
        return holder[key] if -len(holder) <= key < len(holder) else None
    return dict.get(holder, key) if isinstance(holder, dict) else None
