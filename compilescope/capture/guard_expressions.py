"""Dynamo's expressions over a frame: split from their comments, evaluated, and the values that they read."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import torch

from compilescope.capture import describe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

_ROOTS: Final = ("L", "G")
_OWNER_DICTS: Final = ("_modules", "_parameters", "_buffers", "__dict__")


_ITEM: Final = "___compilescope_item"


class _Items(ast.NodeTransformer):
    """Writes ``dict.__getitem__(d, key)`` as ``d[key]``, so that an item is read as one value."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Rewrite one call."""
        self.generic_visit(node)
        if ast.unparse(node.func) == "dict.__getitem__" and len(node.args) == 2:  # noqa: PLR2004 (a dict and a key)
            return ast.Subscript(value=node.args[0], slice=node.args[1], ctx=ast.Load())
        return node


class _Careful(_Items):
    """Writes ``d[key]`` as a call of :func:`item`, so that reading a dict never adds to it."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Rewrite one subscript."""
        self.generic_visit(node)
        if isinstance(node.slice, ast.Slice):
            return node
        return ast.Call(func=ast.Name(id=_ITEM, ctx=ast.Load()), args=[node.value, node.slice], keywords=[])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Rewrite one call, and what it was rewritten to."""
        written = super().visit_Call(node)
        return self.visit_Subscript(written) if isinstance(written, ast.Subscript) else written


def item(container: Any, key: object) -> object:  # noqa: ANN401 (whatever a source goes through)
    """Return an item. Never ask a dict that creates missing items, such as ``defaultdict``, for one.

    Raises:
        KeyError: the dict lacks it.
        Exception: whatever another container raises.
    """
    if isinstance(container, dict) and not dict.__contains__(container, key):
        raise KeyError(key)
    return container[key]


@lru_cache(maxsize=16384)
def plain(source: str) -> str:
    """Write ``dict.__getitem__(d, key)`` in a source as ``d[key]``; other sources as they are."""
    if "dict.__getitem__(" not in source:
        return source
    try:
        return ast.unparse(_Items().visit(ast.parse(source, mode="eval")))
    except (SyntaxError, ValueError):
        return source


@lru_cache(maxsize=16384)
def compiled(expression: str) -> CodeType | None:
    """Compile a source or guard expression once; None if it is not Python. Evaluate it with :func:`run`."""
    try:
        tree = _Careful().visit(ast.parse(expression, mode="eval"))
        return compile(ast.fix_missing_locations(tree), "<guard>", "eval")
    except (SyntaxError, ValueError):
        return None


def run(code: CodeType, scope: dict[str, Any]) -> object:
    """Return the value of a compiled expression in a scope, to which ``eval`` adds ``__builtins__``.

    Raises:
        Exception: whatever evaluating it raises.
    """
    scope[_ITEM] = item
    return eval(code, scope)  # noqa: S307 (Dynamo's own guard text, which Dynamo evaluates too)


@lru_cache(maxsize=4096)
def split(text: str) -> tuple[str, str]:
    """Split a line of guard text into its expression and its comment (with the ``#``)."""
    start = text.find("#")
    while start != -1:
        head = text[:start].strip()
        if compiled(head) is not None:
            return head, text[start:]
        start = text.find("#", start + 1)
    head, mark, tail = text.partition("  # ")
    if not mark:
        head, mark, tail = text.partition("(HINT: ")
    return head.strip(), mark.strip() + " " + tail if mark else ""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One value that an expression reads: ``text`` in Dynamo's words, ``name`` in the user's."""

    text: str
    name: str

    @property
    def is_of_tensor(self) -> bool:
        """Whether it is a size, a stride or the storage offset of a tensor."""
        return any(mark in self.text for mark in (".size()[", ".stride()[", ".storage_offset()"))


@lru_cache(maxsize=4096)
def symbols(expression: str) -> tuple[Symbol, ...]:
    """Return the values that an expression reads, in order, each once."""
    code = compiled(expression)
    if code is None:
        return ()
    tree = _Items().visit(ast.parse(expression, mode="eval"))
    found = dict.fromkeys(ast.unparse(node) for node in _chains(tree.body))
    return tuple(Symbol(text=text, name=describe.source(text)) for text in found)


def _chains(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the longest attribute, subscript and method chains that start at ``L`` or ``G``."""
    if isinstance(node, ast.expr) and root_of(node) in _ROOTS:
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _chains(child)


def root_of(node: ast.expr) -> str | None:
    """Return the name that a chain of attributes, subscripts and calls starts at; None for another expression."""
    while True:
        match node:
            case ast.Subscript(value=ast.Call(func=ast.Name(id="list"), args=[ast.Call(args=[inner])])):
                # A key by its position: list(dict.keys(d))[0].
                node = inner
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute() as inner, args=[]):
                node = inner
            case ast.Name(id=name):
                return name
            case _:
                return None


def evaluate(expression: str, scope: dict[str, Any]) -> object:
    """Return the value of an expression in a guard's scope, to which ``eval`` adds ``__builtins__``.

    Raises:
        SyntaxError: it is not Python.
        Exception: whatever evaluating it raises.
    """
    code = compiled(expression)
    if code is None:
        msg = f"not a Python expression: {expression}"
        raise SyntaxError(msg)
    return run(code, scope)


def evaluate_or_none(expression: str, scope: dict[str, Any]) -> object:
    """Return the value of an expression; None also if it cannot be reached on this input."""
    try:
        return evaluate(expression, scope)
    except Exception:  # noqa: BLE001 (a value that is not there is not there, whatever the user's object raises)
        return None


def holder(source: str, scope: dict[str, Any], code: CodeType) -> str | None:
    """Say what holds the value at ``source``, in the words of :class:`compilescope.record.Failure`; None if unknown."""
    if compiled(source) is None:
        return None
    if ".cell_contents" in source:
        return "closure"
    match ast.parse(source, mode="eval").body:
        case ast.Subscript(value=ast.Name(id="L"), slice=ast.Constant(value=name)):
            return "closure" if name in code.co_freevars else "local"
        case ast.Subscript(value=ast.Name(id="G")):
            return "global"
        case ast.Subscript(value=ast.Attribute(value=owner, attr=attribute)) if attribute in _OWNER_DICTS:
            return _holder_value(owner, scope)
        case ast.Attribute(value=owner):
            return _holder_value(owner, scope)
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="size" | "stride"))):
            return "tensor"
        case ast.Subscript(value=owner):
            return _holder_value(owner, scope)
        case _:
            return None


def in_module(source: str, scope: dict[str, Any]) -> bool:
    """Whether a source is reached through an ``nn.Module``, as ``L['self'].config.scale`` of a model is."""
    if compiled(source) is None:
        return False
    node = ast.parse(source, mode="eval").body
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
        if isinstance(evaluate_or_none(ast.unparse(node), scope), torch.nn.Module):
            return True
    return False


def _holder_value(owner: ast.expr, scope: dict[str, Any]) -> str | None:
    try:
        held_by = evaluate(ast.unparse(owner), scope)
    except Exception:  # noqa: BLE001 (an owner out of reach is an owner unknown)
        return None
    if isinstance(held_by, torch.nn.Module):
        return "module"
    if isinstance(held_by, torch.Tensor):
        return "tensor"
    if isinstance(held_by, dict):
        return "dict"
    return "sequence" if isinstance(held_by, list | tuple) else "object"
