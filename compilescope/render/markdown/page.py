"""A Markdown page for GitHub that cannot exceed its limit, be broken by user text, or end inside a table."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

from compilescope.render.words import clip, harmless_markup, has_command, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LIMIT: Final = 65_536
"""GitHub refuses comments and issues of this many characters or more."""
_RESERVE: Final = 2_000
"""Reserved for the sentences that say what was left out."""
_CELL: Final = 160
_PROSE: Final = 400
_ACTIVE: Final = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_REFERENCE: Final = re.compile(r"@(?=\w)|(?<!&)#(?=\w)")
"""Text that would become a mention or an issue link."""


def entities(text: str) -> str:
    """Return printable ``text`` with everything special to Markdown or HTML written as an entity."""
    return _ACTIVE.sub(lambda found: f"&#{ord(found.group())};", escape(plain(text)))


def code(text: str, *, width: int = _CELL) -> str:
    """Return ``text`` as inline code: no markup, mention or issue link inside it takes effect."""
    short = clip(plain(text), width).strip()
    if not short:
        return ""
    # A backtick would end the code, a pipe the table cell, and nothing can be escaped inside backticks.
    active = "`" in short or "|" in short or has_command(short)
    return f"<code>{entities(short)}</code>" if active else f"`{short}`"


def prose(text: str, *, width: int = _PROSE) -> str:
    """Return ``text`` as a sentence. An empty comment after ``@`` keeps GitHub from notifying anybody."""
    return _REFERENCE.sub(r"\g<0><!-- -->", entities(clip(plain(text), width)))


class Page:
    """Collects blocks of Markdown as long as there is room."""

    def __init__(self) -> None:
        """Start an empty page."""
        self._blocks: list[str] = []
        self._length = 0
        self._left_out: list[str] = []

    def __str__(self) -> str:
        """Return the document; if something did not fit, its last paragraph says what."""
        blocks = list(self._blocks)
        if self._left_out:
            missing = ", ".join(self._left_out)
            blocks.append(
                f"Left out to stay below GitHub's limit of {LIMIT:,} characters: {missing}. "
                "The `json` format and `compilescope report -v` have all."
            )
        return "\n\n".join(blocks) + "\n"

    def add(self, block: str, *, name: str | None = None) -> bool:
        """Append ``block`` if there is room for it; otherwise note that ``name`` is missing."""
        if len(block) + 2 > self._room:
            if name is not None:
                self._left_out.append(name)
            return False
        self._blocks.append(block)
        self._length += len(block) + 2
        return True

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, noun: str, share: int) -> None:
        """Append a table of as many whole rows as fit into ``share`` characters.

        Args:
            columns: headings; one that ends in ``:`` is right-aligned.
            rows: cells, escaped already.
            noun: what one row is, to say how many are missing.
            share: how many of the remaining characters this table may take.
        """
        lines = _table_head(columns)
        room = min(share, self._room - 2)
        missing = 0
        for row in rows:
            line = f"| {' | '.join(row)} |"
            if missing or sum(len(known) + 1 for known in lines) + len(line) > room:
                missing += 1
            else:
                lines.append(line)
        if missing:
            self._left_out.append(f"{missing} more {noun}" + ("" if missing == 1 else "s"))
        if len(lines) > len(_table_head(columns)):
            self.add("\n".join(lines))

    def fold(self, summary: str, blocks: Iterable[str], *, noun: str) -> None:
        """Append as many whole ``blocks`` as fit, in a collapsed section."""
        opening, closing = f"<details><summary>{summary}</summary>", "</details>"
        room = self._room - len(opening) - len(closing) - 8
        kept: list[str] = []
        missing = 0
        for block in blocks:
            if missing or len(block) + 1 > room:
                missing += 1
            else:
                kept.append(block)
                room -= len(block) + 1
        if missing:
            self._left_out.append(f"{missing} more {noun}" + ("" if missing == 1 else "s"))
        if kept:
            self.add("\n\n".join((opening, "\n".join(kept), closing)))

    @property
    def _room(self) -> int:
        return LIMIT - _RESERVE - self._length


def _table_head(columns: Sequence[str]) -> list[str]:
    rule = "|".join("---:" if column.endswith(":") else "---" for column in columns)
    return [f"| {' | '.join(column.rstrip(':') for column in columns)} |", f"|{rule}|"]


def bullets(lines: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {line}" for line in lines)


def preformatted(text: str, *, width: int = 4_000) -> str:
    """Return ``text`` verbatim; if it is too long, keep its end: the most useful part of a traceback."""
    rows = [plain(row) for row in text.splitlines()]
    body = escape("\n".join(rows))
    if len(body) > width:
        body = "...\n" + escape("\n".join(rows)[-width // 6 :])
    return f"<pre>\n{harmless_markup(body)}\n</pre>"
