"""Programs made at random: a world of parts, a body that reads them, and what changes before the second call."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from . import ambient, callables, containers, modules, objects, relations, tensors, values
from .parts import Ground, Part
from .places import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypothesis.strategies import DrawFn

    from .parts import Root

_GAP: Final = re.compile(r"\n{2,}(?=\S)")
MODULE: Final = "generated_program"
_HEAD: Final = """
import contextlib
import enum
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

KEPT = []  # Dynamo drops an entry when an object that it guards dies; nothing here dies.
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program and what changes before its second call.

    Attributes:
        dynamic: as ``torch.compile`` is told.
        root: what is compiled.
        kept: whether the compiled module is one object, or made anew for each call.
        changed: names of the parts that change.
    """

    parts: tuple[Part, ...]
    changed: frozenset[str]
    dynamic: bool | None
    root: Root
    kept: bool

    @property
    def facts(self) -> tuple[Part, ...]:
        """The parts that change."""
        return tuple(part for part in self.parts if part.name in self.changed)

    def text(self) -> str:
        """Return the program's source."""
        definitions = dict.fromkeys(part.definitions for part in self.parts)
        written = "\n\n".join([_HEAD.strip(), *definitions, self._body(), self._run(), ""])
        return _GAP.sub("\n\n\n", written)

    def _body(self) -> str:
        parameters = ", ".join(["one", *_in_order(part.parameter for part in self.parts)])
        reading = "\n".join(["outs = [one + 1]", *(part.reading for part in self.parts if part.reading), "return outs"])
        if self.root == "module":
            body = textwrap.indent(reading, " " * 8)
            kept = "\n\n\nMODEL = Model()" if self.kept else ""
            return f"class Model(nn.Module):\n    def forward(self, {parameters}):\n{body}{kept}"
        body = textwrap.indent(reading, " " * 4)
        function = f"def compute({parameters}):\n{body}"
        if self.root == "function":
            return function
        cells = ", ".join(self._cells())
        return f"def make({cells}):\n{textwrap.indent(function, ' ' * 4)}\n\n    return compute"

    def _cells(self) -> list[str]:
        return [part.cell for part in self.parts if part.cell is not None]

    def _run(self) -> str:
        model = ["model = MODEL" if self.kept else "model = Model()"] if self.root == "module" else []
        makings = [part.making for part in self.parts if part.making]
        contexts = ", ".join(part.context for part in self.parts if part.context)
        arguments = ", ".join(["one", *_in_order(part.argument for part in self.parts)])
        callee = {"module": "model", "function": "compute", "factory": f"make({', '.join(self._cells())})"}[self.root]
        call = f"compile({callee})({arguments})"
        called = f"with {contexts}:\n    {call}" if contexts else call
        lines = ["one = torch.ones(3)", *model, *makings, "KEPT.append(locals())", called]
        return f"def run(compile, changed):\n{textwrap.indent(chr(10).join(lines), '    ')}"

    def __str__(self) -> str:
        """Return the source and what changes, for people."""
        changes = [f"# changes: {part.told}" for part in self.facts] or ["# nothing changes"]
        return "\n".join([self.text(), *changes, f"# dynamic={self.dynamic}", ""])

    __repr__ = __str__


def _in_order(written: Iterable[str | None]) -> list[str]:
    """Return parameters or arguments in Python's order: ``*rest`` behind the plain ones, ``**options`` last."""
    return sorted((text for text in written if text), key=lambda text: (text.startswith("*"), text.startswith("**")))


def _thing_of(makers: tuple[Callable[..., object], ...]) -> Callable[[DrawFn, Ground], Part]:
    def make(draw: DrawFn, ground: Ground) -> Part:
        thing = draw(st.sampled_from(makers))(draw, ground)
        return placed(draw, ground, thing)

    return make


_MAKERS: Final = (
    _thing_of(values.THINGS),
    _thing_of(tensors.THINGS),
    _thing_of(containers.THINGS),
    _thing_of(callables.THINGS),
    _thing_of(objects.THINGS),
    lambda draw, ground: draw(st.sampled_from(modules.MAKERS))(draw, ground),
    lambda draw, ground: draw(st.sampled_from(relations.MAKERS))(draw, ground),
    ambient.ambient,
)


@st.composite
def programs(draw: DrawFn) -> Program:
    """Draw a program."""
    dynamic = draw(st.sampled_from([None, True, False]))
    root: Root = draw(st.sampled_from(["function", "factory", "module"]))
    parts: list[Part] = []
    for index in range(draw(st.integers(1, 5))):
        part = draw(st.sampled_from(_MAKERS))(draw, Ground(f"v{index}", dynamic, root, index))
        if not _clashes(part, parts):
            parts.append(part)
    names = [part.name for part in parts]
    count = min(draw(st.sampled_from([1, 2, 2, 1, 2, 1, 2, 1, 2, 0])), len(names))
    changed = draw(st.lists(st.sampled_from(names), min_size=count, max_size=count, unique=True))
    return Program(tuple(parts), frozenset(changed), dynamic, root, draw(st.booleans()))


# What train() and to() do to all of a model, and a class that replaces another in it, is one change wherever it is
# seen: two such parts of one sort, changed alike, would be one.
_WIDE: Final = ("training", "class of a submodule", "None or submodule", "dtype of a ", "requires_grad of a ")


def _clashes(part: Part, others: Iterable[Part]) -> bool:
    wide = next((beginning for beginning in _WIDE if part.sort.startswith(beginning)), None)
    if wide is not None and any(other.sort.startswith(wide) for other in others):
        return True
    stars = {"*", "**"} & {(part.parameter or "").rstrip("v0123456789")}
    return any(
        part.brings & other.avoids
        or part.avoids & other.brings
        or (stars and (other.parameter or "").rstrip("v0123456789") in stars)
        for other in others
    )
