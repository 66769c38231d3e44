"""The guard tree of an entry: its nodes, the values at their sources in a frame, and the guards on them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compilescope.capture import _torch, guard_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType


class _Unreached:
    """Stands for a value that was not reached."""


MISSING: Final = _Unreached()
"""The frame has no such value."""
UNSEEN: Final = _Unreached()
"""compilescope cannot reach it, so nothing is reported about it or anything below it."""
_UNASKED: Final = _Unreached()
_ITEM: Final = re.compile(r"DictGetItemGuardAccessor\((\'[^\'\\]*\'|-?\d+)\)")
_ATTRIBUTE: Final = re.compile(r"GetAttrGuardAccessor\((\w+)\)")
_DEFAULTS: Final = "FuncDefaultsGuardAccessor"


@dataclass(slots=True, eq=False)
class Node:
    """One guard manager of the tree. It must not outlive the entry: the C++ objects belong to the entry's root.

    Attributes:
        manager: the guard manager, a C++ object.
        source: Dynamo's own text for the guarded value.
        parent: the node above; None at the root.
        accessor: how torch gets from the parent's value to this one; None for keys and values of a dict.
        key: for a key or value manager of a dict, the position of the item.
        is_key: whether it guards the key itself.
    """

    manager: Any
    source: str
    parent: Node | None = None
    accessor: Any = None
    key: int | None = None
    is_key: bool = False
    _children: list[Node] | None = None
    _value: object = field(default=_UNASKED)
    _position: str | None = None

    @property
    def is_dict(self) -> bool:
        """Whether torch guards the order of the keys here, and so the class and the length of the dict itself."""
        return isinstance(self.manager, _torch.DICT_MANAGER)

    @property
    def children(self) -> list[Node]:
        """The nodes below, in torch's current order, which changes as guards fail."""
        if self._children is None:
            self._children = list(self._below())
        return self._children

    def _below(self) -> Iterator[Node]:
        manager = self.manager
        for accessor, child in zip(manager.get_accessors(), manager.get_child_managers(), strict=False):
            yield Node(child, _source_of(child, self, accessor), self, accessor)
        if self.is_dict:
            for index, (key, value) in manager.get_key_value_managers().items():
                if key is not None:
                    yield Node(key, key.get_source(), self, key=index, is_key=True)
                if value is not None:
                    yield Node(value, value.get_source(), self, key=index)

    @property
    def by_position(self) -> str:
        """The source with items of dicts by the position of their keys, as expressions write it."""
        if self._position is None:
            self._position = self.source if self.parent is None else self._below_parent(self.parent)
        return self._position

    def _below_parent(self, parent: Node) -> str:
        above = parent.by_position
        if self.key is not None:
            key = f"list(dict.keys({above}))[{self.key}]"
            return key if self.is_key else f"{above}[{key}]"
        source = guard_expressions.plain(self.source)
        return above + self.source[len(parent.source) :] if self.source.startswith(parent.source) else source

    @property
    def path(self) -> list[Node]:
        """The nodes from below the root down to this one."""
        found: list[Node] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def value(self, scope: dict[str, Any]) -> object:
        """Return the value at this node in a frame, or :data:`MISSING` or :data:`UNSEEN`. It is read once."""
        if self._value is _UNASKED:
            self._value = scope["L"] if self.parent is None else _reach(self, self.parent.value(scope), scope)
        return self._value


def _source_of(child: Any, parent: Node, accessor: Any) -> str:  # noqa: ANN401 (C objects)
    """Return a child's source; for a ``hasattr`` check, torch gives the attribute's node its owner's source.

    It does so for the default values of a function too.

    An owner that is an item of a dict has two sources: by its key, and by the key's position.
    """
    source = str(child.get_source())
    by_position = guard_expressions.plain(source)
    is_owner = source == parent.source or (by_position != source and by_position == parent.by_position)
    if not is_owner:
        return source
    written = accessor.repr()
    attribute = _ATTRIBUTE.fullmatch(written)
    name = "__defaults__" if written.startswith(_DEFAULTS) else None if attribute is None else attribute[1]
    return source if name is None else f"{source}.{name}"


def tree(manager: Any) -> Node:  # noqa: ANN401 (version dependent)
    """Return the root node of an entry's guard manager."""
    root = manager.root
    return Node(root, root.get_source())


def leaf_count(manager: Any) -> int:  # noqa: ANN401 (version dependent)
    """Return how many leaf guards the tree of an entry holds; the expressions over sizes come on top of these."""
    return sum(len(node.manager.get_leaf_guards()) for node in tree(manager).walk())


def _reach(node: Node, above: object, scope: dict[str, Any]) -> object:
    """Reach a node's value: from its parent's where its source extends the parent's, else from the frame's locals.

    From the parent it also works where the source cannot be written as Python
    (``[<AttentionBackendName.NATIVE: 'native'>]``), which says nothing about the guard.
    """
    if isinstance(above, _Unreached) or node.parent is None:
        return above
    if node.key is not None:
        items = list(dict.items(above)) if isinstance(above, dict) else []
        return items[node.key][0 if node.is_key else 1] if node.key < len(items) else MISSING
    if type(above) is dict and (item := _ITEM.fullmatch(node.accessor.repr())) is not None:
        # The item itself: an attribute of that name may be elsewhere, like a submodule that is None now.
        held: dict[object, object] = above
        return held.get(_key(item[1]), MISSING)
    source, parent = node.source, node.parent.source
    suffix = source.removeprefix(parent) if source.startswith(parent) else None
    code = guard_expressions.compiled(f"P{suffix}") if suffix else None
    if code is not None:
        return _evaluate(code, {"P": above})
    code = guard_expressions.compiled(source)
    if code is not None:
        return _evaluate(code, scope)
    return _by_key(above, source, node.accessor)


def _key(written: str) -> str | int:
    return written[1:-1] if written.startswith("'") else int(written)


def _evaluate(code: CodeType, scope: dict[str, Any]) -> object:
    try:
        return guard_expressions.run(code, scope)
    except NameError:
        return UNSEEN
    except Exception:  # noqa: BLE001 (user objects may raise anything on access; the value is then out of reach)
        return MISSING


def _by_key(parent: object, source: str, accessor: Any) -> object:  # noqa: ANN401 (a C object)
    """Reach an item whose key cannot be written as Python, by the key's repr; attributes in a ``__dict__`` by name."""
    if not isinstance(parent, dict):
        return UNSEEN
    name = source.rpartition(".")[2]
    if name in parent:
        return parent[name]
    text = accessor.repr()
    matches = [item for key, item in dict.items(parent) if repr(key) in text]
    return matches[0] if len(matches) == 1 else UNSEEN
