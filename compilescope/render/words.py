"""Small pieces of text that the renderers share: escaping, clipping, and how values are written."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from compilescope.record import CodeObject, Failure, Location, Scalar

_DOTS: Final = "..."
_BETWEEN: Final = ", "
_DOTTED: Final = re.compile(r"[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<\w+>))+")
_COMMAND: Final = re.compile(r"##(?=\w*\[)")
"""The start of a command to GitHub's or Azure's runner, or to TeamCity, anywhere in a log line."""
_COLONS: Final = re.compile(r"^([^\S\n]*)::", re.MULTILINE)
_RESUME: Final = re.compile(r"torch_dynamo_resume_in_.*_at_(\d+)$")


def plain(text: str) -> str:
    """Return ``text`` as one printable line: what moves the cursor or changes the text direction is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def harmless(text: str) -> str:
    """Return ``text`` so that no CI system reads a line of it in a log as a command.

    For GitHub Actions a line that begins with two colons, even after blanks, is a command too.
    """
    return "\n".join(_harmless(line) for line in text.split("\n"))


def _harmless(line: str) -> str:
    said = line.lstrip()
    defused = f"{line[: len(line) - len(said)]}\\{said}" if said.startswith("::") else line
    return _COMMAND.sub(r"#\\#", defused)


def has_command(text: str) -> bool:
    """Whether a CI system would read something in a line as a command."""
    return _COMMAND.search(text) is not None


def harmless_json(document: str) -> str:
    """Return an equivalent JSON document that contains no command to a CI system."""
    return _COMMAND.sub(r"#\\u0023", document)


def harmless_markup(document: str) -> str:
    """Return the text of an XML or HTML document likewise."""
    return _COLONS.sub(r"\1&#58;:", _COMMAND.sub("#&#35;", document))


def clip(text: str, width: int) -> str:
    """Cut ``text`` at its end to ``width`` terminal cells."""
    if cell_len(text) <= width:
        return text
    if width <= len(_DOTS):
        return _DOTS[: max(width, 0)]
    return set_cell_size(text, width - len(_DOTS)).rstrip() + _DOTS


def clip_path(path: str, width: int) -> str:
    """Cut ``path`` at its start, between two folders if possible: its end is the most useful part."""
    if cell_len(path) <= width:
        return path
    kept = path[-max(width - len(_DOTS), 1) :]
    while cell_len(kept) > width - len(_DOTS) and len(kept) > 1:
        kept = kept[1:]
    return _DOTS + kept[max(kept.find("/"), 0) :]


def clip_pair(expected: str, actual: str, width: int) -> tuple[str, str]:
    """Cut two values that are shown side by side, but not where they differ.

    Full class names differ at their ends: cut their common prefix first, then the beginning.
    """
    if max(cell_len(expected), cell_len(actual)) <= width:
        return expected, actual
    if not (_DOTTED.fullmatch(expected) and _DOTTED.fullmatch(actual)):
        return clip(expected, width), clip(actual, width)
    parts, others = expected.split("."), actual.split(".")
    while len(parts) > 1 and len(others) > 1 and parts[0] == others[0]:
        del parts[0], others[0]
    return _clip_dotted(".".join(parts), width), _clip_dotted(".".join(others), width)


def _clip_dotted(name: str, width: int) -> str:
    """Cut a dotted name at its start, between two words if possible."""
    if cell_len(name) <= width:
        return name
    words = name.split(".")
    while len(words) > 1 and cell_len(".".join(words)) > width - len(_DOTS):
        del words[0]
    kept = ".".join(words)
    return clip(_DOTS + kept if len(kept) < len(name) else name, width)


def seconds(value: float) -> str:
    """Write a duration."""
    return f"{value * 1000:.0f} ms" if value < 0.1 else f"{value:.1f} s"  # noqa: PLR2004 (below it 0.0 s would be read)


def place(where: Location) -> str:
    """Write a location in full."""
    return plain(f"{where.file}:{where.line}")


def short_place(where: Location) -> str:
    """Write a location with only its file's name."""
    return plain(f"{PurePath(where.file).name}:{where.line}")


def kind_of(failure: Failure) -> str:
    """Return the kind of a failing guard, or say that it has none yet."""
    return plain(failure.kind or "unclassified")


def point_text(point: Mapping[str, Scalar]) -> str:
    """Write a sweep point: ``height=64, text_len=7``."""
    return plain(", ".join(f"{axis}={value}" for axis, value in point.items()))


def axes_note(axes: tuple[str, ...] | None) -> str | None:
    """Say which axes changed; None outside a sweep."""
    if axes is None:
        return None
    return plain(f"{' and '.join(axes)} changed") if axes else "no axis changed"


def resume_line(code: CodeObject) -> str | None:
    """Return the line after which a resume function resumes, or None if unknown."""
    if code.resumes is None:
        return None
    if code.resumed_after is not None:
        return str(code.resumed_after.line)
    found = _RESUME.search(code.qualname)
    return found.group(1) if found else None


def resume_names(codes: Sequence[CodeObject]) -> dict[str, str]:
    """Name the resume functions of one function, by id: by their lines, and if two share a line, by its text.

    A function whose line is unknown is not named.
    """
    names = {code.id: f"resumed after line {line}" for code in codes if (line := resume_line(code)) is not None}
    texts = {code.id: code.resumed_after.text for code in codes if code.resumed_after is not None}
    for identity in _shared(names):
        if (text := texts.get(identity)) is not None:
            names[identity] = f"resumed after {plain(text)}, {names[identity].removeprefix('resumed after ')}"
    for number, identity in enumerate(_shared(names), 1):
        names[identity] += f" ({number})"
    return names


def _shared(names: Mapping[str, str]) -> list[str]:
    """Return the ids of those whose name is not unique."""
    counts = Counter(names.values())
    return [identity for identity, name in names.items() if counts[name] > 1]


def is_relation(source: str, expected: str) -> bool:
    """Whether the expected text itself names every guarded value: ``a == 1 + b``."""
    return bool(source) and all(_names(expected, name) for name in source.split(_BETWEEN))


def _names(text: str, name: str) -> bool:
    """Whether a text contains a name as a separate word, not as part of a word or in quotes."""
    return re.search(rf"(?<![\w'\".]){re.escape(name)}(?![\w'\"])", text) is not None


def values_alone(expected: str, actual: str) -> str:
    """Return the actual values without the names that a relation already has: ``22, 21`` for ``a = 22, b = 21``."""
    parts = [part.rpartition(" = ") for part in actual.split(_BETWEEN)]
    return _BETWEEN.join(value if name and name in expected else name + sign + value for name, sign, value in parts)


def roots_phrase(roots: Sequence[Failure]) -> str:
    """Say what would have to be free to vary: ``size of x.size()[1] (and 2 more)``."""
    if not roots:
        return ""
    root = next((failure for failure in roots if not is_relation(failure.source, failure.expected)), roots[0])
    more = f" (and {len(roots) - 1} more)" if len(roots) > 1 else ""
    return f"{kind_of(root)} of {plain(root.source)}{more}"
