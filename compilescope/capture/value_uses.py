"""Says what code does with a guarded Python value: branches on it, needs it as a constant, or calculates with it.

That decides what helps. A number used only in arithmetic can be a tensor or dynamic; a number in a branch gives
each side of the branch a graph, and as a tensor it breaks the graph; the length of a loop or part of a string is a
constant of the graph whatever the settings. The function's own source shows this. If the source is unavailable, or
if the value is passed on to another function, nothing is reported.
"""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.record import Use

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_STEPS: Final = 3
"""How many assignments to a local name are followed."""
_NEEDING: Final = frozenset({"range", "str", "repr", "format", "len", "print", "getattr", "enumerate", "hash"})
_CONVERTING: Final = frozenset({"int", "float", "abs", "min", "max", "round"})
_LITERALS: Final = (ast.List, ast.Tuple, ast.Dict, ast.JoinedStr)


@lru_cache(maxsize=4096)
def use_of(source: str, file: str, line: int) -> Use | None:
    """Return what the function around a line does with the value at ``source``.

    Args:
        source: the guarded value as the user writes it: ``factor``, ``self.seed``, ``self.scaling['default']``.
        file: absolute path of the file.
        line: a line of the function that reads the value.

    Returns:
        The most demanding use of the value; None if it is not found, or if it also goes elsewhere.
    """
    function = _function_at(file, line)
    if function is None:
        return None
    uses = set(_Uses(function).of(source))
    if "constant" in uses:
        return "constant"
    if "branch" in uses:
        return "branch"
    return "arithmetic" if uses == {"arithmetic"} else None


def _function_at(file: str, line: int) -> ast.AST | None:
    """Return the innermost function of a file that holds a line."""
    around = [node for node in _functions(file) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return max(around, key=lambda node: node.lineno, default=None)


@lru_cache(maxsize=32)
def _functions(file: str) -> tuple[_Function, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))


class _Uses:
    """The uses of a value in one function."""

    def __init__(self, function: ast.AST) -> None:
        self._nodes = list(ast.walk(function))
        self._parents = {child: node for node in self._nodes for child in ast.iter_child_nodes(node)}

    def of(self, source: str) -> Iterator[Use | None]:
        """Yield every use of the value at ``source``; None for one that leads elsewhere."""
        wanted = _parsed(source)
        if wanted is not None:
            for node in self._nodes:
                if isinstance(node, ast.expr) and _is(node, wanted):
                    yield from self._use(node, _STEPS)

    def _use(self, node: ast.expr, steps: int) -> Iterator[Use | None]:
        """Follow a value up, through everything that keeps it a Python number, to the statement that decides."""
        child: ast.AST = node
        calculated = False
        if self._is_of_an_error(node):
            return
        while (parent := self._parents.get(child)) is not None:
            if (use := _use_in(parent, child)) is not None:
                yield use
                return
            match parent:
                case ast.BinOp() | ast.Compare():
                    # Compared or combined with anything but a constant, it may be a tensor by now.
                    calculated = calculated or not _is_constant(parent, child)
                case ast.UnaryOp() | ast.IfExp():
                    pass
                case ast.Call(func=ast.Name(id=name)) if name in _CONVERTING:
                    pass
                case ast.Assign(targets=[target]) if ast.unparse(target) == ast.unparse(node):
                    yield "arithmetic"
                    return
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.NamedExpr(target=ast.Name(id=name)):
                    if calculated or steps == 0:
                        break
                    yield from self._reads(name, steps - 1)
                    return
                case _:
                    break
            child = parent
        yield "arithmetic" if calculated else None

    def _is_of_an_error(self, node: ast.AST) -> bool:
        """Whether a value is only part of what is raised, which a successful call never reads."""
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, ast.stmt):
            parent = self._parents.get(parent)
        return isinstance(parent, ast.Raise)

    def _reads(self, name: str, steps: int) -> Iterator[Use | None]:
        for node in self._nodes:
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                yield from self._use(node, steps)


def _use_in(parent: ast.AST, child: ast.AST) -> Use | None:
    match parent:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test) if test is child:
            return "branch"
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.Match():
            return "branch"
        case ast.comprehension(ifs=conditions) if child in conditions:
            return "branch"
        case ast.FormattedValue():
            return "constant"
        case ast.Call(func=ast.Name(id=name)) if name in _NEEDING:
            return "constant"
        case ast.Compare() if _is_looked_up(parent, child):
            return "constant"
        case ast.Subscript(value=base, slice=index) if index is child and isinstance(base, _LITERALS):
            return "constant"
        case ast.BinOp(left=left, right=right) if _is_of_text(left) or any(map(_is_literal, (left, right))):
            return "constant"
        case ast.AugAssign():
            return "arithmetic"
    return None


def _is_looked_up(test: ast.Compare, child: ast.AST) -> bool:
    """Whether a value is tested for membership in a container that is not a literal there."""
    contained = any(isinstance(op, ast.In | ast.NotIn) for op in test.ops)
    return contained and test.left is child and not _is_literal(test.comparators[0])


def _is_literal(node: ast.AST) -> bool:
    return isinstance(node, _LITERALS)


def _is_of_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_constant(operation: ast.BinOp | ast.Compare, child: ast.AST) -> bool:
    others = [node for node in ast.iter_child_nodes(operation) if isinstance(node, ast.expr) and node is not child]
    return all(isinstance(other, ast.Constant) for other in others)


def _parsed(source: str) -> ast.expr | None:
    try:
        node = ast.parse(source, mode="eval").body
    except SyntaxError:
        return None
    match node:
        case ast.Subscript(value=ast.Name(id="G"), slice=ast.Constant(value=str() as name)):
            return ast.Name(id=name, ctx=ast.Load())
    return node


def _is(node: ast.expr, wanted: ast.expr) -> bool:
    """Whether a node reads the wanted value. Its holder has another name if the function was inlined."""
    match wanted, node:
        case ast.Name(id=name), ast.Name(id=found):
            return name == found and isinstance(node.ctx, ast.Load)
        case ast.Attribute(attr=name), ast.Attribute(attr=found):
            return name == found
        case ast.Subscript(value=held, slice=key), ast.Subscript(value=holder, slice=index):
            same = not isinstance(index, ast.Constant) or ast.dump(index) == ast.dump(key)
            return same and _is(holder, held)
    return False
