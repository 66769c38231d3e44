"""Every rule as a page of Markdown: the text of ``docs/rules.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.analysis.rules import RULES

if TYPE_CHECKING:
    from compilescope.analysis.rules import Rule

_HEAD: Final = """# Rules

Written by `compilescope explain --rules > docs/rules.md`; a test compares it with the code. A code is never reused for
another rule. `compilescope explain CS203` shows one of them in a terminal.

A budget limit is an option of `compilescope check` and a key of `[tool.compilescope.budget]`; rules without one always
apply. A [baseline](ci.md#the-baseline) may accept an exceeded limit, and never missing data.
"""
_PARTS: Final = {
    "1": "Nothing was recorded, or not enough to judge",
    "2": "Compilations",
    "3": "Graph breaks",
    "4": "Eager calls",
    "5": "Size, time, distance",
    "6": "The baseline",
}


def rulebook() -> str:
    """Return the page."""
    blocks = [_HEAD]
    for digit, title in _PARTS.items():
        rules = [rule for code, rule in sorted(RULES.items()) if code.startswith(f"CS{digit}")]
        blocks += [f"## {title}\n", _table(rules), *(_section(rule) for rule in rules)]
    return "\n".join(blocks)


def _table(rules: list[Rule]) -> str:
    rows = [f"| [{rule.code}](#{_anchor(rule)}) | {rule.name} | {_limit(rule)} | {_accepted(rule)} |" for rule in rules]
    return "\n".join(("| code | name | set by | in a baseline |", "|---|---|---|---|", *rows, ""))


def _section(rule: Rule) -> str:
    return f"### {rule.code} {rule.name}\n\n{rule.meaning}\n\n{rule.remedy}\n"


def _anchor(rule: Rule) -> str:
    """Return GitHub's anchor for the section's heading."""
    return f"{rule.code.lower()}-{rule.name}"


def _limit(rule: Rule) -> str:
    return f"`{rule.limit}`" if rule.limit else "always applies"


def _accepted(rule: Rule) -> str:
    return "yes" if rule.acceptable else "no"
