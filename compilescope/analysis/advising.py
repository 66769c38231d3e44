"""One chosen sentence of advice, and helpers that the rules share."""

from __future__ import annotations

import ast
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
    """The name of a sentence, with the values for the words in braces."""

    name: str
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence."""
        return SENTENCES[self.name].format_map(self.words)


def value_of(source: str) -> str:
    """Return the value whose property a source is: advice names ``x``, not ``x.stride()[0]``."""
    return _PROPERTY.sub("", source)


def about(cause: Failure, name: str, **words: str) -> Advice:
    """Return a sentence about the value of a cause."""
    return Advice(name, {"source": value_of(cause.source), **words})


def of_adapter(cause: Failure, facts: Facts) -> bool:
    """Whether a Parameter belongs to a LoRA adapter in a diffusers model, which can swap adapters in place."""
    parameter = "Parameter" in (cause.expected_type, cause.actual_type)
    return facts.library == "diffusers" and parameter and _ADAPTER.search(cause.source) is not None


def place_of(where: Location | None) -> str:
    """Return a short name of a line: ``model.py:12``; ``the traced code`` if it is unknown."""
    return "the traced code" if where is None else f"{where.file}:{where.line}"


def compares(where: Location | None) -> bool:
    """Whether a line compares two values for equality, or branches: a number that it pins decides between two outcomes.

    Not if the line also formats a number as a string or looks it up: each value then gives a different result.
    """
    text = ((where.text if where is not None else None) or "").strip()
    # The line may be the head of a block without its body.
    lines = (text, f"{text}\n pass", f"if True: pass\n{text}\n pass")
    nodes = next((found for line in lines if (found := _nodes(line))), [])
    operators = [op for node in nodes if isinstance(node, ast.Compare) for op in node.ops]
    if any(isinstance(node, ast.JoinedStr | ast.In | ast.NotIn) for node in (*nodes, *operators)):
        return False
    branches = text.startswith(("if ", "elif ", "while ", "assert ")) or any(isinstance(n, ast.IfExp) for n in nodes)
    return branches or any(isinstance(op, ast.Eq | ast.NotEq) for op in operators)


def _nodes(text: str) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return []


def quoted(where: Location | None) -> str:
    """Return the text of a line in brackets, after a space; ``""`` if it is unknown."""
    if where is None or not where.text:
        return ""
    text = where.text if len(where.text) <= _LONGEST_QUOTE else f"{where.text[: _LONGEST_QUOTE - 3]}..."
    return f" ({text})"


def and_dynamic(facts: Facts) -> str:
    """Return what to add to a setting that only works under dynamic=True; ``""`` if that is set."""
    return "" if facts.dynamic is True else " and compile with dynamic=True"
