"""Compiles a model: all of it, its repeated blocks, or the modules with a name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import nn

from compilescope.errors import UsageError
from compilescope.wording import guess, listing
from compilescope.workloads.model.target import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WHOLE: Final = "whole"
BLOCKS: Final = "blocks"
_FORWARD: Final = ".forward"


@dataclass(frozen=True, slots=True)
class Compile:
    """What to compile and how; None keeps torch's default.

    Attributes:
        what: ``whole``, ``blocks``, or the name of a class or of a submodule, with or without ``.forward``; None for
            what the program itself compiles, or the whole model if it compiles nothing.
        dynamic: as ``torch.compile`` takes it.
        fullgraph: whether a graph break is an error.
        backend: its name.
    """

    what: str | None = None
    dynamic: bool | None = None
    fullgraph: bool | None = None
    backend: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The given arguments of ``torch.compile``."""
        given = {"dynamic": self.dynamic, "fullgraph": self.fullgraph, "backend": self.backend}
        return {name: value for name, value in given.items() if value is not None}


def parts(model: nn.Module, what: str | None) -> tuple[nn.Module, ...]:
    """Return the modules that ``what`` names.

    Raises:
        UsageError: there is none.
    """
    if what is None or what == WHOLE:
        return (model,)
    if what == BLOCKS:
        return _blocks(model)
    name = what.removesuffix(_FORWARD)
    named = dict(model.named_modules())
    if name in named and name:
        return (named[name],)
    found = tuple(module for module in named.values() if name in (type(module).__name__, type(module).__qualname__))
    if not found:
        classes = dict.fromkeys(type(module).__name__ for module in named.values())
        said = guess(name, [*classes, *named, BLOCKS, WHOLE])
        msg = f"--compile {what}: {type(model).__name__} has no module of that class or name.{said}"
        raise UsageError(msg)
    return found


def compiled(model: nn.Module, how: Compile) -> Callable[..., object]:
    """Compile the chosen parts of ``model``, and return what to call instead of it.

    The whole model is compiled as users do, by ``torch.compile(model)``: for one of torch's own classes, the result of
    ``model.compile()`` is never traced. Parts are compiled in place.

    Raises:
        UsageError: the model does not have that part.
    """
    if isinstance(model, FunctionModel):
        return cast("Callable[..., object]", torch.compile(model.function, **how.options))
    if how.what is None or how.what == WHOLE:
        return cast("Callable[..., object]", torch.compile(model, **how.options))
    for module in parts(model, how.what):
        module.compile(**how.options)
    return model


def described(modules: tuple[nn.Module, ...], how: Compile) -> str:
    """Say what is compiled and how, in a few words."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in how.options.items())
    kinds = Counter(type(module).__name__ for module in modules)
    whole = getattr(getattr(modules[0], "function", None), "__name__", type(modules[0]).__name__)
    what = (
        f"{whole} as a whole"
        if how.what in (None, WHOLE)
        else listing(f"{number} x {name}" for name, number in kinds.items())
    )
    return f"{what} by torch.compile({arguments})"


def _blocks(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return a model's repeated blocks: those that diffusers names, else the most frequent class in a list.

    Of equally frequent classes, the first in the model is taken.
    """
    names = getattr(model, "_repeated_blocks", None)
    if names:
        named = tuple(module for module in model.modules() if type(module).__name__ in names)
        if named:
            return named
    lists = [held for held in model.modules() if isinstance(held, nn.ModuleList | nn.Sequential)]
    # A list of Linear is not a list of blocks.
    children = [child for held in lists for child in held if any(child.children())]
    repeated = [kind for kind, number in Counter(map(type, children)).most_common() if number > 1]
    if not repeated:
        has = f" It holds {listing(_children(model))}." if any(_children(model)) else ""
        msg = f"--compile blocks: {type(model).__name__} repeats no module in a list; name a class, or use whole.{has}"
        raise UsageError(msg)
    return tuple(child for child in children if type(child) is repeated[0])


def _children(model: nn.Module) -> Iterator[str]:
    yield from dict.fromkeys(type(child).__name__ for child in model.children())
