"""A leaf guard that refused a value, with everything that is known of the question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from compilescope.capture import describe, expressions
from compilescope.record import Failure

if TYPE_CHECKING:
    from types import CodeType

    from compilescope.capture.compiled_for import CompiledFor, Noted, Number, TensorLayout
    from compilescope.record import Location

_CELL: Final = re.compile(r"(?P<function>.+?)\.__closure__\[(?P<index>\d+)\]\.cell_contents(?P<rest>.*)")
_ITEM_AT: Final = re.compile(r"\[(list\(dict\.keys\(.+?\)\)\[\d+\])\]")
_CLASS: Final = re.compile(r"type=(?:<class '(?P<name>[^']+)'>|(?P<bare>.+?))(?:\s*$)")
# torch 2.11 writes the object itself in the place of its class.
_SORTS: Final[tuple[tuple[str, str], ...]] = (
    ("<code object", "code"),
    ("<function", "function"),
    ("<bound method", "method"),
    ("<built-in", "builtin_function_or_method"),
    ("<module", "module"),
)
_INSTANCE: Final = re.compile(r"<(?:[\w.<>]+\.)?(\w+) object at ")


@dataclass(frozen=True, slots=True)
class Frame:
    """A new frame that an older entry refused.

    Attributes:
        scope: the names that guard expressions are written in, with their values now.
        code: the code object.
        entry: what the entry was compiled for; None where nobody saw it being compiled.
    """

    scope: dict[str, Any]
    code: CodeType
    entry: CompiledFor | None = None

    def was(self, source: str) -> Noted | None:
        """Return what stood at a source when the entry was compiled; None if unknown."""
        return None if self.entry is None else self.entry.values.get(source)

    def was_number(self, symbol: str) -> Number | None:
        """Return the number that a shape expression's operand had when the entry was compiled; None if unknown."""
        return None if self.entry is None else self.entry.number(symbol)

    def was_layout(self, source: str) -> TensorLayout | None:
        """Return the sizes and strides that a tensor had when the entry was compiled; None if unknown."""
        return None if self.entry is None else self.entry.layout(source)

    def place(self, source: str, comment: str) -> Location | None:  # noqa: ARG002 (by source where it was noted)
        """Return the user's line that made Dynamo guard a source or an expression."""
        return describe.location_in(comment)


@dataclass(frozen=True, slots=True)
class Asked:
    """A leaf guard that refused a value: its class, its text, and the value it was asked about."""

    guard_type: str
    texts: list[str]
    source: str
    value: object
    frame: Frame
    raised: str | None = None

    @property
    def was(self) -> Noted | None:
        """What stood here when the entry was compiled; None if unknown."""
        return self.frame.was(self.source)

    @property
    def expression(self) -> str:
        """The guard's expression without Dynamo's comment."""
        return expressions.split(self.texts[0])[0] if self.texts else self.source

    @property
    def comment(self) -> str:
        """Dynamo's comment: the user's line and hints."""
        return expressions.split(self.texts[0])[1] if self.texts else ""

    @property
    def name(self) -> str:
        """The source as the user would write it."""
        return written(self.source, self.frame.scope)

    def failure(self, expected: str, actual: str, **facts: Any) -> Failure:  # noqa: ANN401 (fields of Failure)
        """Build the failure; ``facts`` overrides what is derived here."""
        derived: dict[str, Any] = {
            "source": self.name,
            "guard": describe.shorten(describe.source(self.expression), 200),
            "where": self.frame.place(self.source, self.comment),
            "guard_type": self.guard_type,
            "holder": expressions.holder(self.source, self.frame.scope, self.frame.code),
            "actual_type": describe.type_name(self.value),
            "raised": self.raised,
        }
        return Failure(expected=expected, actual=actual, **(derived | facts))


def written(source: str, scope: dict[str, Any]) -> str:
    """Write a source as the user would: a closure's cell by the variable's name, an item of a dict by its key."""
    cell = _CELL.match(source)
    if cell is None:
        return describe.source(_ITEM_AT.sub(lambda item: _key_at(item, scope), source))
    try:
        function = expressions.evaluate(cell["function"], scope)
        variable = function.__code__.co_freevars[int(cell["index"])]  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 (another sort of callable: its cell keeps Dynamo's own name)
        return describe.source(source)
    return f"{variable}{describe.source(cell['rest'])}"


def _key_at(item: re.Match[str], scope: dict[str, Any]) -> str:
    try:
        return f"[{describe.key(expressions.evaluate(item[1], scope))}]"
    except Exception:  # noqa: BLE001 (no such key on this input: Dynamo's own words stay)
        return item[0]


def class_in(text: str) -> str | None:
    """Return the dotted name of the class that a guard's text tells; None where it tells none."""
    found = _CLASS.search(text)
    if found is None:
        return None
    if found["name"]:
        return found["name"].removeprefix("builtins.")
    shown = found["bare"]
    instance = _INSTANCE.match(shown)
    if instance is not None:
        return instance[1]
    if shown.startswith("<"):
        return next((sort for start, sort in _SORTS if shown.startswith(start)), None)
    return shown
