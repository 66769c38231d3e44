"""Every field of a recording as Markdown, from the docstrings of its classes: a part of ``docs/python.md``."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final, get_args

import msgspec

from compilescope import record

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIELDS: Final = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)
_ROLE: Final = re.compile(r":\w+:`~?([^`]+)`")
_WORDS: Final = ("Outcome", "FallbackKind", "TargetStatus", "Use", "Mark")


def fieldbook() -> str:
    """Return a section for each class, the recording itself first."""
    kinds: tuple[type[msgspec.Struct], ...] = (record.Recording, *_classes())
    sections = [_section(kind) for kind in kinds]
    words = [f"| `{name}` | {', '.join(f'`{word}`' for word in get_args(getattr(record, name)))} |" for name in _WORDS]
    table = "\n".join(("| words | one of |", "|---|---|", *words))
    return "\n".join((*sections, f"### Words\n\n`compilescope explain` says what each means.\n\n{table}\n"))


def _classes() -> Iterator[type[msgspec.Struct]]:
    """Yield the classes of the format except the recording, in the order of the file."""
    for value in vars(record).values():
        ours = isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == record.__name__
        if ours and value is not record.Recording:
            yield value


def _section(kind: type[msgspec.Struct]) -> str:
    text = inspect.cleandoc(kind.__doc__ or "")
    summary, _, attributes = text.partition("\n\nAttributes:\n")
    meanings = _meanings(attributes)
    types = inspect.get_annotations(kind)
    groups: dict[str, list[str]] = {}
    for name in kind.__struct_fields__:
        groups.setdefault(meanings[name], []).append(name)
    rows = [
        f"| {', '.join(f'`{name}`' for name in names)} | {_types([types[name] for name in names])} | {meaning} |"
        for meaning, names in groups.items()
    ]
    table = "\n".join(("| field | type | meaning |", "|---|---|---|", *rows))
    return f"### {kind.__name__}\n\n{_markdown(summary)}\n\n{table}\n"


def _meanings(attributes: str) -> dict[str, str]:
    """Return what the lines below ``Attributes:`` say about each field."""
    _, *parts = _FIELDS.split(attributes)
    named = zip(parts[::2], parts[1::2], strict=True)
    return {name: _markdown(text) for names, text in named for name in names.split(", ")}


def _types(texts: list[str]) -> str:
    shown = texts[:1] if len(set(texts)) == 1 else texts
    return ", ".join(f"`{text}`" for text in shown).replace("|", "\\|")


def _markdown(text: str) -> str:
    """Return the prose of a docstring with each paragraph on one line of Markdown."""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return _ROLE.sub(r"`\1`", "\n\n".join(paragraphs)).replace("``", "`").replace("|", "\\|")
