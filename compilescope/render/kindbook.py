"""Every kind of cause as a page of Markdown: the text of ``docs/kinds.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.analysis.kinds import KINDS

if TYPE_CHECKING:
    from compilescope.analysis.kinds import Kind

_HEAD: Final = """# Kinds of cause

Written by `compilescope explain --kinds > docs/kinds.md`; a test compares it with the code. Each recompile is explained
by the kinds of the guards that failed. `compilescope explain zero_one` shows one of them in a terminal.

A kind is shape-driven if a graph that is general in its shapes would have avoided the recompile; every kind of the
family *shape* is. Most kinds have a program in this repository that recompiles for them: `pytest tests/probes -k KIND`.
A report adapts the advice to the facts of the run.
"""


def kindbook() -> str:
    """Return the page."""
    families: dict[str, list[Kind]] = {}
    for kind in KINDS.values():
        families.setdefault(kind.family, []).append(kind)
    blocks = [_HEAD]
    for family, kinds in families.items():
        blocks += [f"## {family.capitalize()}\n", *(_section(kind) for kind in kinds)]
    return "\n".join(blocks)


def _section(kind: Kind) -> str:
    return f"### {kind.name}\n\n{kind.meaning}\n\nWhat helps: {kind.advice.format(source='the value')}\n"
