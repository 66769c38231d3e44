"""A leaf guard that refused a value, with everything that is known about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compilescope.capture import describe, guard_expressions
from compilescope.capture.guard_places import GuardPlaces
from compilescope.capture.places import Place
from compilescope.record import Failure

if TYPE_CHECKING:
    from types import CodeType

    from compilescope.capture.compiled_for import CompiledFor, Noted, Number, TensorLayout

_CELL: Final = re.compile(r"(?P<function>.+?)\.__closure__\[(?P<index>\d+)\]\.cell_contents(?P<rest>.*)")
_ON_LINE: Final = re.compile(r" on line \d+")
_SLOT: Final = re.compile(r"\b___stack(\d+)\b")
_ITEM_AT: Final = re.compile(r"\[(list\(dict\.keys\(.+?\)\)\[\d+\])\]")
_CLASS: Final = re.compile(r"type=(?:<class '(?P<name>[^']+)'>|(?P<bare>.+?))(?:\s*$)")
# torch 2.11 writes the object itself instead of its class.
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
        entry: what the entry was compiled for; None if it was compiled without a listener.
        places: where the entry's guards come from.
        slots: for a resume function, what each slot of the stack that it takes over holds, in the user's words.
    """

    scope: dict[str, Any]
    code: CodeType
    entry: CompiledFor | None = None
    places: GuardPlaces = field(default_factory=GuardPlaces)
    slots: tuple[str | None, ...] = ()

    def was(self, source: str) -> Noted | None:
        """Return what was at a source when the entry was compiled; None if unknown."""
        return None if self.entry is None else self.entry.values.get(guard_expressions.plain(source))

    def was_number(self, symbol: str) -> Number | None:
        """Return the number that a shape expression's operand had when the entry was compiled; None if unknown."""
        return None if self.entry is None else self.entry.number(symbol)

    def was_layout(self, source: str) -> TensorLayout | None:
        """Return the sizes and strides that a tensor had when the entry was compiled; None if unknown."""
        return None if self.entry is None else self.entry.layout(source)

    def place(self, source: str, guard_type: str, text: str = "") -> Place:
        """Return the user's line that made Dynamo guard a source, and torch's own if torch requested it."""
        return self._or_comment(self.places.guard(source, guard_type, text), text)

    def shape_place(self, text: str, *, upper: bool = False) -> Place:
        """Return the same for one line of the shape guards; of one with two bounds, for the upper or the lower."""
        return self._or_comment(self.places.shape(text, upper=upper), text)

    @staticmethod
    def _or_comment(place: Place, text: str) -> Place:
        # If the entry was compiled without a listener, the guard's own text names the innermost line.
        return place if place.user is not None else Place(describe.location_in(guard_expressions.split(text)[1]), None)

    def written(self, source: str) -> str:
        """Write a source as the user would, a slot of the stack by what the user wrote."""
        return _SLOT.sub(self._slot, written(source, self.scope))

    def _slot(self, found: re.Match[str]) -> str:
        index = int(found[1])
        slot = self.slots[index] if index < len(self.slots) else None
        # Without its line: a baseline identifies causes by their sources, and lines change.
        return found[0] if slot is None else f"({_ON_LINE.sub('', slot)})"


@dataclass(frozen=True, slots=True)
class Asked:
    """A leaf guard that refused a value: its class, its text, and the value that it checked."""

    guard_type: str
    texts: list[str]
    source: str
    value: object
    frame: Frame
    raised: str | None = None

    @property
    def was(self) -> Noted | None:
        """What was here when the entry was compiled; None if unknown."""
        return self.frame.was(self.source)

    @property
    def expression(self) -> str:
        """The guard's expression without Dynamo's comment."""
        return guard_expressions.split(self.texts[0])[0] if self.texts else self.source

    @property
    def name(self) -> str:
        """The source as the user would write it."""
        return self.frame.written(self.source)

    def failure(self, expected: str, actual: str, **facts: Any) -> Failure:  # noqa: ANN401 (fields of Failure)
        """Build the failure; ``facts`` overrides what is derived here."""
        place = self.frame.place(self.source, self.guard_type, self.texts[0] if self.texts else "")
        derived: dict[str, Any] = {
            "source": self.name,
            "guard": describe.shorten(describe.source(self.expression), 200),
            "where": place.user,
            "torch_where": place.torch,
            "guard_type": self.guard_type,
            "holder": guard_expressions.holder(self.source, self.frame.scope, self.frame.code),
            "actual_type": describe.type_name(self.value),
            "of_module": guard_expressions.in_module(self.source, self.frame.scope),
            "raised": self.raised,
            **self.frame.places.pin(self.source),
        }
        return Failure(expected=expected, actual=actual, **(derived | facts))


def written(source: str, scope: dict[str, Any]) -> str:
    """Write a source as the user would: a closure's cell by the variable's name, an item of a dict by its key."""
    source = guard_expressions.plain(source)
    cell = _CELL.match(source)
    if cell is None:
        return describe.source(_ITEM_AT.sub(lambda item: _key_at(item, scope), source))
    try:
        function = guard_expressions.evaluate(cell["function"], scope)
        variable = function.__code__.co_freevars[int(cell["index"])]  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 (another sort of callable: its cell keeps Dynamo's own name)
        return describe.source(source)
    return f"{variable}{describe.source(cell['rest'])}"


def _key_at(item: re.Match[str], scope: dict[str, Any]) -> str:
    try:
        return f"[{describe.key(guard_expressions.evaluate(item[1], scope))}]"
    except Exception:  # noqa: BLE001 (no such key on this input: Dynamo's own words stay)
        return item[0]


def class_in(text: str) -> str | None:
    """Return the dotted name of the class in a guard's text; None if there is none."""
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
