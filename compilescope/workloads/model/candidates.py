"""Finds possible models in a file: module classes, modules, functions that build one. Does not import torch."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

_BUILDERS: Final = ("build", "build_model", "make_model", "get_model", "create_model", "load_model")
_MODULE: Final = "Module"


def candidates_in(module: ModuleType) -> tuple[str, ...]:
    """Return the names of possible models in an imported module.

    A function with the name of a builder, or annotated to return a module, comes before the classes that it builds; a
    class that another class of the file uses is a part, not the model.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return ()
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    builders = [name for name, value in own.items() if inspect.isfunction(value) and _builds(name, value)]
    models = [name for name, value in vars(module).items() if isinstance(value, torch.nn.Module)]
    classes = {name: value for name, value in own.items() if isinstance(value, type)}
    modules = {name: value for name, value in classes.items() if issubclass(value, torch.nn.Module)}
    used = {name for value in modules.values() for name in _names_used(value) if modules.get(name) is not value}
    wholes = [name for name in modules if name not in used] or list(modules)
    return tuple(builders or models or wholes)


def _builds(name: str, function: Any) -> bool:  # noqa: ANN401 (any function)
    returned = function.__annotations__.get("return")
    said = returned if isinstance(returned, str) else getattr(returned, "__name__", "")
    return name in _BUILDERS or said.rpartition(".")[2] == _MODULE


def _names_used(cls: type) -> set[str]:
    """Return the global names that the methods of a class use, and its bases."""
    functions = [value for value in vars(cls).values() if inspect.isfunction(value)]
    return {name for function in functions for name in function.__code__.co_names} | {
        base.__name__ for base in cls.__bases__
    }


def models_in(tree: ast.Module) -> tuple[str, ...]:
    """Return the same for a file that was only parsed: builders, else classes whose base has the name of a module."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    builders = [node.name for node in functions if node.name in _BUILDERS or _returns_module(node)]
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    modules: set[str] = set()
    for name, node in classes.items():
        bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        if _MODULE in bases or bases & modules:
            modules.add(name)
    used = {
        part.id
        for name in modules
        for part in ast.walk(classes[name])
        if isinstance(part, ast.Name) and part.id in modules and part.id != name
    }
    wholes = [name for name in classes if name in modules - used] or [name for name in classes if name in modules]
    return tuple(builders or wholes)


def _returns_module(node: ast.FunctionDef) -> bool:
    return node.returns is not None and ast.unparse(node.returns).strip("\"'").rpartition(".")[2] == _MODULE
