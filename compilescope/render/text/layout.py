"""The page of the text report: styled lines in sections, made to fit one screen.

Nothing is dropped silently: a shortened section says what is missing and how to see it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from compilescope.render.words import clip, harmless, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH: Final = 100
HEIGHT: Final = 40
_NARROWEST: Final = 40
_ROWS: Final = 3
"""Rows that one line may take on a screen."""
_LEAST: Final = 3
"""The lines of a minimal section: its title, one line, and what is missing."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much the report shows; the levels go from most to least.

    Attributes:
        pairs: pairs of expected and actual shown for one change; None for all.
        groups: changes shown for one code object; None for all.
        where: whether the user's line is quoted below a cause, or only named beside it.
        alternatives: whether equally close entries are named.
        advice: whether advice is given.
        more: the command that shows everything.
    """

    pairs: int | None = None
    groups: int | None = None
    where: bool = True
    alternatives: bool = True
    advice: bool = True
    more: str = "-v"


EVERYTHING: Final = Detail()
_FEW: Final = Detail(pairs=1, where=False, alternatives=False, advice=False)
LEVELS: Final = (
    Detail(pairs=3, alternatives=False),
    Detail(pairs=3, where=False, alternatives=False),
    Detail(pairs=2, where=False, alternatives=False),
    Detail(pairs=2, where=False, alternatives=False, advice=False),
    replace(_FEW, groups=4),
    replace(_FEW, groups=2),
    replace(_FEW, groups=1),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report.

    Attributes:
        text: what it says.
        hang: indentation of further rows; None for a line that is cut instead of wrapped.
        whole: whether it takes as many rows as it needs.
    """

    text: Text
    hang: int | None = None
    whole: bool = False

    def rows(self, width: int) -> tuple[Line, ...]:
        """Return the line wrapped at words into rows of ``width`` columns; only a few, unless it is whole."""
        if self.hang is None or self.text.cell_len <= width:
            return (self,)
        console = _console(StringIO(), width=width, color=False)
        first = self.text.wrap(console, width)[0]
        rest = self.text[len(first) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
        rows = [first, *rest.wrap(console, width - self.hang)]
        shown = rows[1:] if self.whole else rows[1:_ROWS]
        kept = [first, *(Text(" " * self.hang) + row for row in shown)]
        if len(kept) < len(rows):
            kept[-1].rstrip()
            kept[-1].append(" ...")
        return tuple(Line(row) for row in kept)


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together.

    Attributes:
        lines: what is shown; the first names the thing.
        weight: how many of the section's counted things it contains.
    """

    lines: tuple[Line, ...]
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the report.

    Attributes:
        title: its heading.
        noun: what one block is, for "... 7 more".
        blocks: what it shows, most important first.
        weighed: what the weights of the blocks count, or None.
        appetite: how many lines it takes at a time when sections share a screen.
        more: the command that shows all of it.
    """

    title: str
    noun: str
    blocks: tuple[Block, ...]
    weighed: str | None = None
    appetite: int = 1
    more: str = "-v"

    @property
    def height(self) -> int:
        """Lines that the whole section takes."""
        return 1 + sum(len(block.lines) for block in self.blocks)

    def broken(self, width: int) -> Section:
        """Return the section with long lines wrapped into rows."""
        return replace(self, blocks=tuple(replace(b, lines=broken(b.lines, width)) for b in self.blocks))

    def lines(self, room: int | None = None) -> list[Line]:
        """Return the section, cut to ``room`` lines with a last one that says what is missing."""
        heading = [styled(self.title, style="bold")]
        if room is None or self.height <= room:
            return heading + [line for block in self.blocks for line in block.lines]
        kept: list[Line] = []
        shown = 0
        for block in self.blocks:
            if len(kept) >= room - 2:
                break
            kept += block.lines[: room - 2 - len(kept)]
            shown += 1
        return [*heading, *kept, styled("  ", (self._missing(self.blocks[shown:]), "yellow"))]

    def _missing(self, hidden: Sequence[Block]) -> str:
        if not hidden:
            return f"... and more of it: {self.more} shows all"
        noun = self.noun if len(hidden) == 1 else f"{self.noun}s"
        weight = sum(block.weight for block in hidden)
        weighed = f" with {weight} {self.weighed}{'' if weight == 1 else 's'}" if self.weighed and weight else ""
        return f"... and {len(hidden)} more {noun}{weighed}: {self.more} shows all"


def styled(*parts: str | tuple[str, str], style: str = "", hang: int | None = None, whole: bool = False) -> Line:
    """Return a line; each part is text, or text and its style. Markup inside user text has no effect here."""
    text = Text(style=style)
    for part in parts:
        words, look = (part, "") if isinstance(part, str) else part
        text.append(plain(words), style=look)
    return Line(text, hang, whole)


def broken(lines: Iterable[Line], width: int) -> tuple[Line, ...]:
    """Return ``lines``, with long ones wrapped into rows."""
    return tuple(row for line in lines for row in line.rows(width))


def fit(sections: Sequence[Section], room: int) -> list[list[Line]]:
    """Cut ``sections`` so that together they take ``room`` lines: small ones stay whole, large ones share the rest."""
    rooms = [min(section.height, _LEAST) for section in sections]
    left = room - sum(rooms)
    while left > 0 and any(given < section.height for given, section in zip(rooms, sections, strict=True)):
        for index, section in enumerate(sections):
            more = min(section.appetite, left, section.height - rooms[index])
            rooms[index] += more
            left -= more
    return [section.lines(given) for section, given in zip(sections, rooms, strict=True)]


def page_width(width: int | None) -> int:
    """Return the columns to fill; below a minimum nothing is readable."""
    return max(width or WIDTH, _NARROWEST)


def printed(lines: Sequence[Line], *, width: int, color: bool, cut: bool) -> str:
    """Return ``lines`` as terminal text; ``cut`` keeps each on one row of ``width`` columns."""
    out = StringIO()
    console = _console(out, width=width, color=color)
    for line in lines:
        text = line.text.copy()
        text.rstrip()
        text = _harmless(text)
        console.print(_clipped(text, width) if cut else text, soft_wrap=True)
    return out.getvalue()


def _harmless(text: Text) -> Text:
    """Return a line with backslashes that keep a CI system from reading it as a command."""
    for place, character in enumerate(harmless(text.plain)):
        if text.plain[place : place + 1] != character:
            text = text[:place] + Text(character) + text[place:]
    return text


def _clipped(text: Text, width: int) -> Text:
    if text.cell_len <= width:
        return text
    return text[: len(clip(text.plain, width)) - 3] + Text("...")


def _console(out: StringIO, *, width: int, color: bool) -> Console:
    # The caller decides on colour and width; nothing is read from the environment or the terminal.
    return Console(
        file=out,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        force_jupyter=False,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
