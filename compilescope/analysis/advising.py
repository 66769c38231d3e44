"""One chosen sentence of advice, and the words that the rules share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from compilescope.analysis.sentences import SENTENCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.analysis.facts import Facts
    from compilescope.record import Failure, Location

_PROPERTY: Final = re.compile(
    r"(?:\.(?:size|stride|dim|storage_offset)\(\)(?:\[\d+\])?|\.(?:dtype|device|requires_grad|_base))$"
)
_ADAPTER: Final = re.compile(r"\blora_[A-Z]\b")
_LONGEST_QUOTE: Final = 60


@dataclass(frozen=True, slots=True)
class Advice:
    """A sentence by its name, with what is filled in for the words in braces."""

    name: str
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence."""
        return SENTENCES[self.name].format_map(self.words)


def value_of(source: str) -> str:
    """Return the value whose property a source is: advice speaks of ``x``, not of ``x.stride()[0]``."""
    return _PROPERTY.sub("", source)


def about(cause: Failure, name: str, **words: str) -> Advice:
    """Return a sentence about the value of a cause."""
    return Advice(name, {"source": value_of(cause.source), **words})


def of_adapter(cause: Failure) -> bool:
    """Whether a Parameter is that of a LoRA adapter, which peft replaces where adapters are swapped."""
    return _ADAPTER.search(cause.source) is not None and "Parameter" in (cause.expected_type, cause.actual_type)


def place_of(where: Location | None) -> str:
    """Return a line in short: ``model.py:12``; ``the traced code`` where it is not known."""
    return "the traced code" if where is None else f"{where.file}:{where.line}"


def quoted(where: Location | None) -> str:
    """Return the text of a line in brackets, with a space before it; nothing where it is not known."""
    if where is None or not where.text:
        return ""
    text = where.text if len(where.text) <= _LONGEST_QUOTE else f"{where.text[: _LONGEST_QUOTE - 3]}..."
    return f" ({text})"


def and_dynamic(facts: Facts) -> str:
    """Return what to add to a setting that works under dynamic=True alone; nothing where that is set."""
    return "" if facts.dynamic is True else " and compile with dynamic=True"
