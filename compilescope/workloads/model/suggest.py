"""Commands to try next: models in a file, found in its text. Nothing is run, no torch."""

from __future__ import annotations

import ast
import shlex
from typing import TYPE_CHECKING, Final

from compilescope.workloads.model.candidates import models_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MOST: Final = 3
_LITERALS: Final = {"int": "1", "float": "0.5", "str": "'text'"}


def blank(name: str, annotation: str = "") -> str:
    """Return an ``--input`` to fill in for an argument: its sizes and dtype are guesses from the name."""
    if annotation in _LITERALS:
        value = _LITERALS[annotation]
    elif "mask" in name:
        value = "bool[batch,seq]"
    elif name.endswith(("ids", "tokens")):
        value = "i64[batch,seq]"
    elif name.startswith(("pixel", "image", "sample")):
        value = "f32[batch,3,height,width]"
    else:
        value = "f32[batch,seq,16]"
    return f"--input {shlex.quote(f'{name}={value}')}"


def suggested(path: Path) -> tuple[str, ...]:
    """Return the commands that report on the models of a file whose run compiled nothing."""
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError, ValueError):
        return ()
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names = models_in(tree)[:_MOST]
    if not names:
        return tuple(_of_function(path, function) for function in _compiled_functions(tree)[:_MOST])
    # A builder does not show the inputs; the only class of the file does.
    only = next(iter(classes.values())) if len(classes) == 1 else None
    return tuple(
        " ".join(("compilescope report", shlex.quote(f"{path}:{name}"), *_inputs(classes.get(name, only))))
        for name in names
    )


def _inputs(cls: ast.ClassDef | None) -> Iterable[str]:
    methods = [] if cls is None else cls.body
    for node in methods:
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            yield from _blanks(node, [*node.args.posonlyargs, *node.args.args][1:])


def _blanks(function: ast.FunctionDef, arguments: list[ast.arg]) -> Iterator[str]:
    for argument in arguments[: len(arguments) - len(function.args.defaults)]:
        yield blank(argument.arg, "" if argument.annotation is None else ast.unparse(argument.annotation))


def _of_function(path: Path, function: ast.FunctionDef) -> str:
    blanks = _blanks(function, [*function.args.posonlyargs, *function.args.args])
    return " ".join(("compilescope report", shlex.quote(f"{path}:{function.name}"), *blanks))


def _compiled_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the functions of a file that a decorator ``compile`` is on, or that are handed to a function so named."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_compile(node.func)]
    handed = {part.id for call in calls for part in call.args if isinstance(part, ast.Name)}
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and (node.name in handed or any(map(_is_compile, node.decorator_list)))
    ]


def _is_compile(node: ast.expr) -> bool:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2] == "compile"
