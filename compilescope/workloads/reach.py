"""Finds the modules that a workload's callable will run, without running it."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEPTH = 4
"""How deep to search: callable, closure, an object that holds the model (a pipeline), a container in it."""


def modules_of(call: Callable[..., object]) -> list[nn.Module]:
    """Return the outermost modules reachable from ``call``, each once.

    It searches closures, the globals that the function's code names, bound methods, partial arguments, containers, and
    the attributes of plain objects.
    """
    found: dict[int, nn.Module] = {}
    seen: set[int] = set()
    pending: list[tuple[object, int]] = [(call, 0)]
    while pending:
        value, depth = pending.pop()
        if id(value) in seen or depth > _DEPTH:
            continue
        seen.add(id(value))
        if isinstance(value, nn.Module):
            found[id(value)] = value
        else:
            pending.extend((part, depth + 1) for part in _parts(value))
    return list(found.values())


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, FunctionType):
        yield from _held_by_function(value)
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif not isinstance(value, type):
        yield from getattr(value, "__dict__", {}).values()


def _held_by_function(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # an empty cell
            continue
    for name in function.__code__.co_names:
        held = function.__globals__.get(name)
        # A global module or class belongs to a library: the model is an object or a function of the user.
        if isinstance(held, nn.Module | FunctionType) or (held is not None and not _is_library(held)):
            yield held


def _is_library(value: object) -> bool:
    return isinstance(value, type) or hasattr(value, "__spec__")


def static_widths(call: Callable[..., object]) -> dict[int, str]:
    """Return the sizes that the model's parameters fix, each with the name of a parameter that has it.

    0 and 1 are left out: Dynamo gives them no symbol, so it cannot confuse them with others.
    """
    widths: dict[int, str] = {}
    for module in modules_of(call):
        for name, parameter in module.named_parameters():
            for size in parameter.shape:
                if size > 1:
                    widths.setdefault(int(size), f"{name} {tuple(parameter.shape)}")
    return widths
