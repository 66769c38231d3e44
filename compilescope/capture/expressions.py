"""Guard expressions: taking them apart from their comments, evaluating them, and saying what they speak of.

The symbolic shape guards of an entry are a list of Python expressions over ``L[...]``, each with a
comment that names the user's line. They are Dynamo's text, read here once and turned into facts.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import torch

from compilescope.capture import describe
from compilescope.record import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

_ROOTS: Final = ("L", "G")
_DUCK: Final = "duck sizing added this equality"
_OWNER_DICTS: Final = ("_modules", "_parameters", "_buffers", "__dict__")


@lru_cache(maxsize=16384)
def compiled(expression: str) -> CodeType | None:
    """Compile a source or guard expression once; None where it is no Python."""
    try:
        return compile(expression, "<guard>", "eval")
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=4096)
def split(text: str) -> tuple[str, str]:
    """Part a line of guard text into its expression and its comment (with the ``#``)."""
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
    """One value that an expression speaks of: ``text`` in Dynamo's words, ``name`` in the user's."""

    text: str
    name: str

    @property
    def is_size(self) -> bool:
        """Whether it is a size of a tensor."""
        return ".size()[" in self.text


@lru_cache(maxsize=4096)
def symbols(expression: str) -> tuple[Symbol, ...]:
    """Return the values that an expression speaks of, in order, each once."""
    code = compiled(expression)
    if code is None:
        return ()
    found = dict.fromkeys(ast.unparse(node) for node in _chains(ast.parse(expression, mode="eval").body))
    return tuple(Symbol(text=text, name=describe.source(text)) for text in found)


def _chains(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the longest attribute, subscript and method chains that start at ``L`` or ``G``."""
    if isinstance(node, ast.expr) and _root(node) in _ROOTS:
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _chains(child)


def _root(node: ast.expr) -> str | None:
    while True:
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute() as inner, args=[]):
                node = inner
            case ast.Name(id=name):
                return name
            case _:
                return None


@lru_cache(maxsize=4096)
def form(expression: str, comment: str) -> str:
    """Name the form of a shape expression.

    Returns:
        ``base``, ``stride`` or ``storage_offset`` where it speaks of layout (``duck`` where a stride or an
        offset had the value of a size by coincidence); else, where it speaks of anything but sizes,
        ``aliasing`` if it asks whether two values are one object and ``value`` if not; else ``divisible``,
        ``at_least_two``, ``duck``, ``equal``, ``constant``, ``bound`` or ``relation``.
    """
    spoken = symbols(expression)
    for layout, mark in (("base", "._base"), ("stride", ".stride()"), ("storage_offset", ".storage_offset()")):
        if any(mark in symbol.text for symbol in spoken):
            # A stride or an offset that merely had the value of some size when it was compiled is no layout.
            return "duck" if layout != "base" and _DUCK in comment else layout
    if not spoken:
        return "value"
    tree = ast.parse(expression, mode="eval")
    if not all(symbol.is_size for symbol in spoken):
        match tree.body:
            case ast.Compare(left=left, ops=[ast.Is()], comparators=[right]) if _root(left) and _root(right):
                return "aliasing"
        return "value"
    if any(isinstance(node, ast.Mod) for node in ast.walk(tree)):
        return "divisible"
    if _DUCK in comment:
        return "duck"
    return _comparison(tree.body, len(spoken))


def _comparison(node: ast.expr, spoken: int) -> str:
    if spoken > 1:
        plain = isinstance(node, ast.Compare) and all(_root(side) for side in (node.left, *node.comparators))
        return "equal" if plain and isinstance(node.ops[0], ast.Eq) else "relation"  # type: ignore[attr-defined]
    match node:
        case ast.Compare(left=ast.Constant(value=2), ops=[ast.LtE()]):
            return "at_least_two"
        case ast.Compare(ops=[ast.Eq()]):
            return "constant"
        case _:
            return "bound"


def evaluate(expression: str, scope: dict[str, Any]) -> object:
    """Return the value of an expression in a guard's scope, to which ``eval`` adds ``__builtins__``.

    Raises:
        SyntaxError: it is no Python.
        Exception: whatever evaluating it raises.
    """
    code = compiled(expression)
    if code is None:
        msg = f"not a Python expression: {expression}"
        raise SyntaxError(msg)
    return eval(code, scope)  # noqa: S307 (Dynamo's own guard text, which Dynamo evaluates too)


def check(text: str, guard_type: str, scope: dict[str, Any], code: CodeType) -> Failure | None:
    """Evaluate one line of expression text; return what failed, or None if it holds."""
    expression, comment = split(text)
    raised: str | None = None
    try:
        if evaluate(expression, scope):
            return None
    except SyntaxError:
        return None
    except Exception as error:  # noqa: BLE001 (a guard of the user's values may raise anything; that is a finding)
        raised = f"{type(error).__name__}: {describe.shorten(str(error))}"
    spoken = symbols(expression)
    shape = form(expression, comment)
    return Failure(
        source=_subject(spoken, shape) or describe.source(expression),
        guard=describe.source(expression),
        expected=_expected(expression, shape),
        actual=_actual(spoken, shape, scope),
        where=describe.location_in(comment),
        guard_type=guard_type,
        part="dense_stride" if shape == "stride" and _is_dense(spoken, scope) else shape,
        holder=holder(spoken[0].text, scope, code) if shape == "value" and spoken else "tensor",
        expected_type=None,
        actual_type=_type_of(spoken, scope),
        # That it raises where there is no base is no news: what is said of it says that there is none.
        raised=None if shape == "base" else raised,
        symbols=tuple(symbol.name for symbol in spoken),
        off_by=_off_by(expression, scope) if raised is None else None,
    )


def _off_by(expression: str, scope: dict[str, Any]) -> int | None:
    """Return by how much the two sides of an equation of integers differ; None for another expression."""
    match ast.parse(expression, mode="eval").body:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            have, want = evaluate(ast.unparse(left), scope), evaluate(ast.unparse(right), scope)
            return abs(have - want) if isinstance(have, int) and isinstance(want, int) else None
    return None


def _subject(spoken: tuple[Symbol, ...], shape: str) -> str:
    if shape == "base":
        return next(s.name for s in spoken if "._base" in s.text).partition("._base")[0] + "._base"
    if shape == "stride":
        return next(s.name for s in spoken if ".stride()" in s.text)
    return ", ".join(symbol.name for symbol in spoken)


def _expected(expression: str, shape: str) -> str:
    if shape == "base":
        return "a view of another tensor"
    if shape == "at_least_two":
        return ">= 2"
    if shape == "aliasing":
        return "one object for both"
    node = ast.parse(expression, mode="eval").body
    match node:
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant() as constant]) if shape in ("value", "constant"):
            return ast.unparse(constant)
    return describe.source(expression)


def _actual(spoken: tuple[Symbol, ...], shape: str, scope: dict[str, Any]) -> str:
    if shape == "aliasing":
        return "two objects"
    values = {symbol.name: _describe(symbol.text, scope) for symbol in spoken}
    if shape == "base":
        bases = [s.text.partition("._base")[0] + "._base" for s in spoken if "._base" in s.text]
        if bases and _describe(bases[0], scope) == "None":
            return "no view (its _base is None)"
    if len(values) == 1 and shape != "base":
        return next(iter(values.values()))
    return ", ".join(f"{name} = {text}" for name, text in values.items())


def _describe(text: str, scope: dict[str, Any]) -> str:
    try:
        return describe.value(evaluate(text, scope))
    except Exception as error:  # noqa: BLE001 (the value may not exist on this input; say that)
        return f"not there ({type(error).__name__})"


def _is_dense(spoken: tuple[Symbol, ...], scope: dict[str, Any]) -> bool:
    """Whether the tensor whose stride is spoken of is contiguous, so that its strides follow from its sizes."""
    text = next(symbol.text for symbol in spoken if ".stride()" in symbol.text)
    try:
        return bool(evaluate(f"{text.partition('.stride()')[0]}.is_contiguous()", scope))
    except Exception:  # noqa: BLE001 (no such tensor on this input: nothing follows)
        return False


def _type_of(spoken: tuple[Symbol, ...], scope: dict[str, Any]) -> str | None:
    if len(spoken) != 1:
        return None
    try:
        return describe.type_name(evaluate(spoken[0].text, scope))
    except Exception:  # noqa: BLE001 (the value may not exist on this input; its type is then unknown)
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
