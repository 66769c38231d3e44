"""What an entry was compiled for: each guarded value in a few words, noted while it is available.

A guard's text often does not say what it expects: an identity guard holds an address, a mode guard nothing at all, a
shape guard a relation. The values in the frame when the entry was made do. Only text and numbers are kept.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import torch

from compilescope.capture import _torch, describe, guard_expressions, guard_tree, members, metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.record import Mark

_MOST_KEYS: Final = 256
_MARK: Final = "_dynamo_"
_INDICES: Final = "_indices"
_MARKS: Final[Mapping[str, Mark]] = {
    "_dynamo_unbacked_indices": "unbacked",
    "_dynamo_dynamic_indices": "dynamic",
    "_dynamo_weak_dynamic_indices": "weakly dynamic",
    "_dynamo_static_indices": "static",
}
Number = bool | int | float


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """Sizes, strides and storage offset of a tensor, in elements; ``base`` is that of the tensor it is a view of."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    base: TensorLayout | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """One value: its class, its description, and the parts that can be compared.

    Attributes:
        text: a short description, without addresses.
        type_name: name of its class.
        number: the value itself if it is a bool, an int or a float.
        members: descriptions of a dict's keys or a set's members, in order; None for other values or too many.
        length: of a container.
        layout: of a tensor; None if it has none (a subclass may refuse).
        inference: of a tensor, whether it was made in inference mode.
        marks: of a tensor, the dimensions that the user marked, in words.
        parts: of guarded metadata, by name.
    """

    text: str
    type_name: str
    number: Number | None = None
    members: tuple[str, ...] | None = None
    length: int | None = None
    layout: TensorLayout | None = None
    inference: bool | None = None
    marks: str | None = None
    parts: metadata.Parts = ()


@dataclass(frozen=True, slots=True)
class CompiledFor:
    """The values that an entry was compiled for, by Dynamo's source text.

    Attributes:
        values: of the nodes of the guard tree.
        thread: identity of the thread that compiled it.
        modes: the torch-function modes, outermost first.
        inference_mode: whether inference mode was on.
    """

    values: Mapping[str, Noted]
    thread: int
    modes: tuple[str, ...] = ()
    inference_mode: bool = False

    def number(self, symbol: str) -> Number | None:
        """Return the value that a shape expression's operand had, such as ``L['x'].size()[1]``; None if unknown."""
        noted = self.values.get(guard_expressions.plain(symbol))
        if noted is not None:
            return noted.number
        holder, dot, rest = symbol.rpartition(".size()[")
        if dot:
            layout = self.layout(holder)
            return None if layout is None else _item(layout.size, rest)
        holder, dot, rest = symbol.rpartition(".stride()[")
        if dot:
            layout = self.layout(holder)
            return None if layout is None else _item(layout.stride, rest)
        holder, dot, _ = symbol.rpartition(".storage_offset()")
        layout = self.layout(holder) if dot else None
        return None if layout is None else layout.offset

    def layout(self, source: str) -> TensorLayout | None:
        """Return the layout that a tensor had; ``source`` may end in ``._base``."""
        if source.endswith("._base"):
            view = self.layout(source.removesuffix("._base"))
            return None if view is None else view.base
        noted = self.values.get(guard_expressions.plain(source))
        return None if noted is None else noted.layout


def _item(dims: tuple[int, ...], index: str) -> int | None:
    position = int(index.rstrip("]"))
    return dims[position] if position < len(dims) else None


def layout_of(tensor: torch.Tensor, *, of_base: bool = True) -> TensorLayout | None:
    """Return sizes, strides and offset; None if the tensor has none, like a sparse one."""
    try:
        with _torch.no_torch_function():
            size, stride, offset = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
            base = tensor._base if of_base else None  # noqa: SLF001 (the guards read it)
    except Exception:  # noqa: BLE001 (a subclass or a layout without strides may refuse any of these)
        return None
    if not isinstance(offset, int) or not all(isinstance(number, int) for number in (*size, *stride)):
        return None
    return TensorLayout(size, stride, offset, None if base is None else layout_of(base, of_base=False))


def note_value(value: object) -> Noted:
    """Describe one value."""
    name = describe.type_name(value)
    if isinstance(value, bool | int | float):
        return Noted(describe.value(value), name, number=value)
    if isinstance(value, torch.Tensor):
        return Noted(
            describe.value(value), name, layout=layout_of(value), inference=value.is_inference(), marks=marks_of(value)
        )
    if isinstance(value, dict):
        return Noted(describe.value(value), name, members=members_of(value), length=dict.__len__(value))
    # The builtin's own length: a subclass may run anything.
    if isinstance(value, set | frozenset):
        return Noted(describe.value(value), name, members=members_of(value), length=describe.builtin_length(value))
    if isinstance(value, list | tuple):
        return Noted(describe.value(value), name, length=describe.builtin_length(value))
    return Noted(describe.value(value), name)


def mark_of(value: object, dimension: int) -> Mark | None:
    """Return how the caller marked a dimension of a tensor; None if it did not."""
    held = getattr(value, "__dict__", {})
    return next((mark for name, mark in _MARKS.items() if dimension in held.get(name, ())), None)


def registered_as(source: str) -> Literal["parameter", "buffer"] | None:
    """Return whether a module holds a tensor as a parameter or a buffer; None if neither."""
    if "._parameters[" in source:
        return "parameter"
    return "buffer" if "._buffers[" in source else None


def marks_of(value: object) -> str:
    """Return which dimensions of a tensor ``mark_dynamic`` and similar calls marked: ``dynamic 0, 1``."""
    held = getattr(value, "__dict__", {})
    marks = {name[len(_MARK) : -len(_INDICES)]: held[name] for name in held if name.startswith(_MARK)}
    told = [
        f"{name} {', '.join(map(str, sorted(dims)))}" for name, dims in sorted(marks.items()) if isinstance(dims, set)
    ]
    return "; ".join(told) or "no marks"


def members_of(container: dict[Any, Any] | set[Any] | frozenset[Any]) -> tuple[str, ...] | None:
    """Describe the keys of a dict, in their order, or the members of a set, sorted; None if there are too many."""
    items = list(dict.keys(container)) if isinstance(container, dict) else list(container)
    if len(items) > _MOST_KEYS:
        return None
    told = [describe.key(item) for item in items]
    return tuple(told if isinstance(container, dict) else sorted(told))


def note(manager: Any, f_locals: dict[str, Any]) -> CompiledFor:  # noqa: ANN401 (version dependent)
    """Describe what a new entry was compiled for, from the locals of the frame that made it."""
    scope = guard_scope(manager, f_locals)
    values: dict[str, Noted] = {}
    for node in guard_tree.tree(manager).walk():
        value = node.value(scope)
        if value is guard_tree.MISSING or value is guard_tree.UNSEEN or node.parent is None:
            continue
        if members.is_namespace(node.source) and isinstance(value, dict):
            # Its content is guarded name by name.
            values[node.source] = Noted("", "dict", length=len(value))
            continue
        noted = note_value(value)
        values[node.by_position] = noted
        values[node.source] = replace(noted, parts=metadata.parts_of(value)) if _guards_metadata(node) else noted
        inside = describe.inside_numpy(node.source)
        if inside is not None:
            values[inside] = note_value(guard_expressions.evaluate_or_none(inside, scope))
    modes = tuple(_torch.function_modes())
    return CompiledFor(values, threading.get_ident(), modes, inference_mode=torch.is_inference_mode_enabled())


def _guards_metadata(node: guard_tree.Node) -> bool:
    return any(
        leaf.verbose_code_parts()[0].startswith(metadata.GUARD_BEGINNINGS)
        for leaf in node.manager.get_leaf_guards()
        if type(leaf).__name__ == "LAMBDA_GUARD"
    )


def guard_scope(manager: Any, f_locals: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 (version dependent)
    """Return the names that the source expressions of an entry are written in."""
    scope = _torch.guard_scope(manager, f_locals)
    scope.setdefault("__builtins__", __builtins__)
    return scope
