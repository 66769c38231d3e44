"""Symbolic shape guards that fail: their form, which of the values that they read changed, and how.

They are a list of Python expressions over ``L[...]``, each with a comment that names the user's line. An expression
is classified by the operand that changed since the entry was compiled, if that is known: ``self.patch *
x.size()[0] == 28`` is about the size if only the size changed. If a tensor is dense,
before and now, its strides follow from its sizes.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import torch

from compilescope.capture import containers, describe, guard_expressions, tensor_match
from compilescope.capture.compiled_for import layout_of, mark_of, registered_as
from compilescope.capture.guard_expressions import Symbol, root_of
from compilescope.capture.refused_leaf import Asked
from compilescope.record import Failure, Moved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope.capture.refused_leaf import Frame

_DUCK: Final = "duck sizing added this equality"
_ZERO_ONE_BOUND: Final = 2
_KEY_AT: Final = re.compile(r"list\(dict\.keys\((?P<owner>.+)\)\)\[\d+\]")


@dataclass(frozen=True, slots=True)
class Operand:
    """One value that an expression reads.

    Attributes:
        symbol: its source, in Dynamo's words.
        name: as the user would write it.
        was: its number when the entry was compiled; None if unknown.
        now: its value now.
    """

    symbol: Symbol
    name: str
    was: bool | int | float | None
    now: object

    @property
    def changed(self) -> bool:
        """Whether it changed, or may have."""
        return self.was is None or not isinstance(self.now, bool | int | float) or self.was != self.now

    @property
    def tensor(self) -> str:
        """Source of the tensor that it is a property of."""
        text = self.symbol.text
        return text[: min(at for at in map(text.find, (".size()", ".stride()", ".storage_offset()")) if at >= 0)]

    @property
    def is_layout(self) -> bool:
        """Whether it is a stride or an offset."""
        return ".stride()" in self.symbol.text or ".storage_offset()" in self.symbol.text

    def moved(self) -> Moved:
        """Return it as recordings store it."""
        now = self.now if isinstance(self.now, bool | int | float) else None
        return Moved(source=self.name, was=self.was, now=now)


@lru_cache(maxsize=4096)
def form(expression: str, comment: str) -> str:
    """Name the form of an expression over sizes: ``divisible``, ``at_least_two``, ``duck``, ``equal``, ``constant``,
    ``bound`` or ``relation``; ``value`` if it reads something that is not a number of a tensor.
    """  # noqa: D205 (the list of forms is the summary)
    read = guard_expressions.symbols(expression)
    if not read or not all(symbol.is_of_tensor for symbol in read):
        return "value"
    tree = ast.parse(expression, mode="eval")
    if any(isinstance(node, ast.Mod) for node in ast.walk(tree)):
        return "divisible"
    if _DUCK in comment:
        return "duck"
    return _comparison(tree.body, len(read))


def _comparison(node: ast.expr, read: int) -> str:
    if read > 1:
        plain = isinstance(node, ast.Compare) and all(root_of(side) for side in (node.left, *node.comparators))
        return "equal" if plain and isinstance(node.ops[0], ast.Eq) else "relation"  # type: ignore[attr-defined]
    match node:
        case ast.Compare(left=ast.Constant(value=2), ops=[ast.LtE()]):
            return "at_least_two"
        case ast.Compare(ops=[ast.Eq()]):
            return "constant"
        case _:
            return "bound"


def failures(text: str, guard_type: str, frame: Frame) -> Iterator[Failure]:
    """Evaluate one line of expression text; yield the failures: one for each change."""
    expression, comment = guard_expressions.split(text)
    raised: str | None = None
    try:
        with tensor_match.quiet():
            if guard_expressions.evaluate(expression, frame.scope):
                return
    except SyntaxError:
        return
    except Exception as error:  # noqa: BLE001 (a guard of the user's values may raise anything; that is a finding)
        raised = f"{type(error).__name__}: {describe.shorten(str(error))}"
    yield from _Failed(text, expression, comment, guard_type, frame, raised).read()


@dataclass(frozen=True, slots=True)
class _Failed:
    """One expression that does not hold; ``text`` is its whole line."""

    text: str
    expression: str
    comment: str
    guard_type: str
    frame: Frame
    raised: str | None

    def read(self) -> Iterator[Failure]:
        symbols = guard_expressions.symbols(self.expression)
        base = next((symbol for symbol in symbols if "._base" in symbol.text), None)
        if base is not None and self._value(base.text.partition("._base")[0] + "._base") is None:
            yield self._base_gone(base, symbols)
            return
        container = self._container(symbols)
        if container is not None:
            yield container
            return
        aliasing = self._aliasing()
        if aliasing is not None:
            yield aliasing
            return
        operands = [self._operand(symbol) for symbol in symbols]
        changed = [operand for operand in operands if operand.changed] or operands
        values = [operand for operand in changed if not operand.symbol.is_of_tensor]
        layouts = [operand for operand in changed if operand.is_layout and not self._follows_sizes(operand)]
        # If the old values are unknown, an expression that reads a value is about that value.
        known = all(operand.was is not None for operand in operands)
        for operand in values:
            yield self._of_value(operand, operands)
        if values and not known:
            return
        if layouts:
            if not values:
                yield self._of_layout(layouts[0], operands)
        elif (sizes := self._sizes(changed)) or not values:
            yield self._of_sizes(sizes, operands)

    def _operand(self, symbol: Symbol) -> Operand:
        name = self.frame.written(symbol.text)
        return Operand(symbol, name, self.frame.was_number(symbol.text), self._value(symbol.text))

    # --- which operands ---------------------------------------------------------------------------

    def _follows_sizes(self, operand: Operand) -> bool:
        """Whether a stride is that of a dense tensor with these sizes, in one order of dimensions, before and now."""
        if ".stride()" not in operand.symbol.text:
            return False
        now = self._layout(operand.tensor)
        if now is None:
            return False
        was = self.frame.was_layout(operand.tensor)
        if was is None:
            return False
        return tensor_match.dense_alike(was.size, was.stride, now.size, now.stride) and was.size != now.size

    def _sizes(self, changed: Sequence[Operand]) -> list[Moved]:
        """Return the sizes that changed, including those that determine the strides read here."""
        found = [operand.moved() for operand in changed if not operand.is_layout and operand.symbol.is_of_tensor]
        for operand in changed:
            if operand.is_layout and self._follows_sizes(operand):
                was, now = self.frame.was_layout(operand.tensor), self._layout(operand.tensor)
                if was is not None and now is not None:
                    found += tensor_match.moved_sizes(self.frame.written(operand.tensor), was.size, now.size)
        return list(dict.fromkeys(found))

    def _value(self, text: str) -> object:
        with tensor_match.quiet():
            return guard_expressions.evaluate_or_none(text, self.frame.scope)

    def _layout(self, source: str) -> Any:  # noqa: ANN401 (a layout, or None)
        tensor = self._value(source)
        return layout_of(tensor) if isinstance(tensor, torch.Tensor) else None

    def _container(self, symbols: Sequence[Symbol]) -> Failure | None:
        """Report a dict whose key at a position is compared, and a container that lacks what the expression reads."""
        owner = next((key["owner"] for symbol in symbols if (key := _KEY_AT.fullmatch(symbol.text))), None)
        if owner is None and self.raised is not None:
            owner = next((text for symbol in symbols if (text := self._lacking(symbol.text)) is not None), None)
        if owner is None:
            return None
        asked = Asked("MAPPING_KEYS_MATCH", [self.text], owner, self._value(owner), self.frame)
        return containers.changed(asked, "another")

    def _lacking(self, text: str) -> str | None:
        """Return the source of the dict or sequence, within a source, that lacks the item it goes on with."""
        for node in ast.walk(ast.parse(text, mode="eval")):
            if isinstance(node, ast.Subscript):
                owner = ast.unparse(node.value)
                # The frame's locals are not one of the user's containers, and neither are the sizes of a tensor.
                if owner not in ("L", "G") and not owner.endswith("()") and self._lacks(ast.unparse(node)):
                    return owner
        return None

    def _lacks(self, item: str) -> bool:
        try:
            guard_expressions.evaluate(item, self.frame.scope)
        except (KeyError, IndexError):
            return True
        except Exception:  # noqa: BLE001 (another failure on the way: it is not this item that is lacking)
            return False
        return False

    # --- as failures ------------------------------------------------------------------------------

    def _failure(self, operands: Sequence[Operand], **facts: Any) -> Failure:  # noqa: ANN401 (fields of Failure)
        place = self.frame.shape_place(self.text, upper=facts.get("part") == "bound")
        derived: dict[str, Any] = {
            "guard": describe.source(self.expression),
            "expected": describe.source(self.expression),
            "actual": _values(operands, self.frame.scope),
            "where": place.user,
            "torch_where": place.torch,
            "guard_type": self.guard_type,
            "holder": "tensor",
            "raised": self.raised,
            "symbols": tuple(operand.name for operand in operands),
            **(self._of_one_size(operands[0]) if len(operands) == 1 else {}),
        }
        return Failure(**(derived | facts))

    def _of_one_size(self, operand: Operand) -> dict[str, Any]:
        """Return what advice on a size needs to know: what pinned it, how it is marked, what holds the tensor."""
        text = operand.symbol.text
        found = self.frame.places.pin(text)
        tensor, dot, index = text.rpartition(".size()[")
        if dot:
            found["marked"] = mark_of(self._value(tensor), int(index.rstrip("]")))
            found["registered"] = registered_as(tensor)
        return found

    def _base_gone(self, base: Symbol, symbols: Sequence[Symbol]) -> Failure:
        operands = [replace(self._operand(symbol), was=None) for symbol in symbols]
        # The failure already says that there is no base; that the guard raises adds nothing.
        return self._failure(
            operands,
            source=self.frame.written(base.text.partition("._base")[0]) + "._base",
            expected="a view of another tensor",
            actual="not a view (its _base is None)",
            part="base",
            raised=None,
        )

    def _aliasing(self) -> Failure | None:
        match ast.parse(self.expression, mode="eval").body:
            case ast.Compare(left=left, ops=[ast.Is()], comparators=[right]) if root_of(left) and root_of(right):
                names = [self.frame.written(ast.unparse(side)) for side in (left, right)]
                return self._failure(
                    [], source=", ".join(names), expected="one object for both", actual="two objects", part="aliasing"
                )
        return None

    def _of_value(self, operand: Operand, operands: Sequence[Operand]) -> Failure:
        text = operand.symbol.text
        # A bound on a number accepts more than the number that it was compiled with.
        expected = describe.source(self.expression)
        if len(operands) == 1 and _is_comparison(self.expression):
            expected = _constant_in(self.expression) or expected
        elif operand.was is not None:
            expected = describe.value(operand.was)
        return self._failure(
            operands,
            source=operand.name,
            expected=expected,
            actual=_described(text, self.frame.scope),
            part="value",
            holder=guard_expressions.holder(text, self.frame.scope, self.frame.code),
            actual_type=describe.type_name(operand.now),
            expected_type=None if operand.was is None else type(operand.was).__name__,
        )

    def _of_layout(self, operand: Operand, operands: Sequence[Operand]) -> Failure:
        stride = ".stride()" in operand.symbol.text
        if _DUCK in self.comment:
            # A stride or an offset that only happened to equal some size when it was compiled.
            return self._failure(operands, source=_names(operands), part="duck")
        part = "stride" if stride else "storage_offset"
        if stride and operand.was is None and self._is_dense(operand):
            # The old strides are unknown; if a size of the tensor fails, they follow from it.
            part = "dense_stride"
        if operand.was is None:
            return self._failure(operands, source=operand.name, part=part)
        was, now = self.frame.was_layout(operand.tensor), self._layout(operand.tensor)
        if stride and was is not None and now is not None and tensor_match.several_differ(was.stride, now.stride):
            name = f"{self.frame.written(operand.tensor)}.stride()"
            return self._failure(operands, source=name, part=part, expected=str(was.stride), actual=str(now.stride))
        sides = {"expected": str(operand.was), "actual": str(operand.now)}
        return self._failure(operands, source=operand.name, part=part, **sides)

    def _is_dense(self, operand: Operand) -> bool:
        now = self._layout(operand.tensor)
        return now is not None and tensor_match.is_dense(now.size, now.stride)

    def _of_sizes(self, sizes: Sequence[Moved], operands: Sequence[Operand]) -> Failure:
        shape = form(self.expression, self.comment)
        expected, off_by = describe.source(self.expression), _off_by(self.expression, self.frame.scope)
        source = _names(operands)
        if shape == "value":
            shape, source = "relation", ", ".join(size.source for size in sizes) or source
        elif shape in ("bound", "at_least_two") and _lower_bound(self.expression) == _ZERO_ONE_BOUND:
            below = isinstance(now := operands[0].now, int) and now < _ZERO_ONE_BOUND
            shape, expected = ("at_least_two", ">= 2") if below else ("bound", expected)
        elif shape == "constant":
            expected = _constant_in(self.expression) or expected
        return self._failure(
            operands,
            source=source,
            expected=expected,
            part=shape,
            moved=tuple(sizes),
            off_by=off_by if self.raised is None else None,
        )


def _names(operands: Sequence[Operand]) -> str:
    return ", ".join(operand.name for operand in operands)


def _values(operands: Sequence[Operand], scope: dict[str, Any]) -> str:
    values = {operand.name: _described(operand.symbol.text, scope) for operand in operands}
    if len(values) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{name} = {text}" for name, text in values.items())


def _described(text: str, scope: dict[str, Any]) -> str:
    try:
        with tensor_match.quiet():
            return describe.value(guard_expressions.evaluate(text, scope))
    except Exception as error:  # noqa: BLE001 (the value may not exist on this input; say that)
        return f"not there ({type(error).__name__})"


def _is_comparison(expression: str) -> bool:
    return isinstance(ast.parse(expression, mode="eval").body, ast.Compare)


def _constant_in(expression: str) -> str | None:
    match ast.parse(expression, mode="eval").body:
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant() as constant]):
            return ast.unparse(constant)
    return None


def _lower_bound(expression: str) -> int | None:
    """Return the constant that is the lower bound of a size in a comparison such as ``2 <= B <= 15``."""
    match ast.parse(expression, mode="eval").body:
        case ast.Compare(left=ast.Constant(value=int(bound)), ops=[ast.LtE(), *_]):
            return bound
    return None


def _off_by(expression: str, scope: dict[str, Any]) -> int | None:
    """Return by how much the two sides of an equation of integers differ; None for another expression."""
    match ast.parse(expression, mode="eval").body:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            with tensor_match.quiet():
                have = guard_expressions.evaluate_or_none(ast.unparse(left), scope)
                want = guard_expressions.evaluate_or_none(ast.unparse(right), scope)
            return abs(have - want) if isinstance(have, int) and isinstance(want, int) else None
    return None
