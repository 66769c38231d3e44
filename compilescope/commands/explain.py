"""``compilescope explain``: the meaning of a word of a report, a rule, or a graph break of torch's registry."""

from __future__ import annotations

import importlib.util
import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from compilescope.analysis.glossary import FAMILIES, WORDS, folded, kind_family, words_called
from compilescope.analysis.kinds import KINDS
from compilescope.analysis.rules import RULES
from compilescope.commands.printing import Command, show
from compilescope.errors import UsageError
from compilescope.render.fieldbook import fieldbook
from compilescope.render.kindbook import kindbook
from compilescope.render.rulebook import rulebook
from compilescope.wording import guess

if TYPE_CHECKING:
    from compilescope.analysis.glossary import Word
    from compilescope.analysis.kinds import Kind
    from compilescope.analysis.rules import Rule

_BREAK: Final = re.compile(r"gb\d+", re.IGNORECASE)
_WIDTH: Final = 100
_SITE: Final = "https://meta-pytorch.github.io/compile-graph-break-site/gb"


@click.command(cls=Command, short_help="Explain any word of a report, a rule such as CS203, or a graph break of torch.")
@click.argument("code", nargs=-1)
@click.option("--rules", is_flag=True, help="Print every rule as Markdown, without a CODE.")
@click.option("--kinds", is_flag=True, help="Print every kind of cause as Markdown, without a CODE.")
@click.option("--fields", is_flag=True, help="Print every field of a recording as Markdown, without a CODE.")
def explain(code: tuple[str, ...], *, rules: bool, kinds: bool, fields: bool) -> None:
    """Explain CODE: any word that a report prints (zero_one, never_reached, free), a rule (CS203), or a graph break
    of torch (GB0170). Without CODE, list them all.

    \b
    Exit codes: 0  explained
                2  unknown CODE
    """  # noqa: D205, D301 (\b is click's mark for a paragraph that is not to be filled)
    pages = [page for wanted, page in ((rules, rulebook), (kinds, kindbook), (fields, fieldbook)) if wanted]
    if bool(code) + len(pages) > 1:
        msg = "Give a CODE to explain, --rules, --kinds, or --fields."
        raise UsageError(msg)
    if pages:
        show(pages[0]())
        return
    show(f"{explanation(' '.join(code).strip()) if code else index()}\n")


def explanation(code: str) -> str:
    """Return what ``code`` means, in every sense that it has.

    Raises:
        UsageError: it is not a known word.
    """
    if _BREAK.fullmatch(code):
        return break_text(code.upper())
    parts = [_rule_text(rule) for rule in RULES.values() if folded(code) in {folded(rule.code), folded(rule.name)}]
    parts += [_kind_text(kind) for kind in KINDS.values() if folded(kind.name) == folded(code)]
    parts += [_word_text(word) for word in words_called(code)]
    if kinds := kind_family(code):
        parts.append(f"{folded(code)} (family of causes)\n\n{_wrapped(', '.join(kinds), start='Kinds:         ')}")
    if not parts:
        near = guess(code, _everything()) or " `compilescope explain` lists everything it can explain."
        msg = f"{code!r} is not a word of a report, a rule, or a graph-break id such as GB0170.{near}"
        raise UsageError(msg)
    return "\n\n".join(parts)


def index() -> str:
    """Return every word that can be explained, by family."""
    rows: dict[str, list[str]] = {}
    for kind in KINDS.values():
        rows.setdefault(kind.family, []).append(kind.name)
    kinds = (_wrapped(", ".join(names), start=f"  {family:<12}") for family, names in rows.items())
    families: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for word in WORDS:
        families[word.family].append(word.shown or word.name)
    parts = (
        "`compilescope explain WORD` says what a word of a report means, and what helps.",
        "\n".join(("kind of cause", *kinds)),
        *(f"{family}\n{_wrapped(', '.join(names), start='  ')}" for family, names in families.items()),
        "\n".join(("rule", *(f"  {rule.code}  {rule.name}" for rule in RULES.values()))),
        "graph break of torch's registry\n  its id, such as GB0170",
    )
    return "\n\n".join(parts)


def _everything() -> tuple[str, ...]:
    words = (form for word in WORDS for form in word.forms)
    return (*KINDS, *words, *RULES, *(rule.name for rule in RULES.values()))


def _word_text(word: Word) -> str:
    lines = [f"{word.shown or word.name} ({word.family})", "", _wrapped(word.meaning)]
    if word.remedy:
        lines += ["", _wrapped(word.remedy, start="What helps:    ")]
    return "\n".join(lines)


def _rule_text(rule: Rule) -> str:
    limit = f"the budget's {rule.limit}" if rule.limit else "nothing: it always applies"
    accepted = "yes" if rule.acceptable else "no: unrecorded or machine-dependent results cannot be accepted"
    lines = (
        f"{rule.code} ({rule.name})",
        "",
        _wrapped(rule.meaning),
        "",
        _wrapped(rule.remedy, start="What helps:    "),
        f"Set by:        {limit}",
        f"In a baseline: {accepted}",
    )
    return "\n".join(lines)


def _kind_text(kind: Kind) -> str:
    yes = "yes: general shapes alone would have avoided it" if kind.shape_driven else "no"
    lines = (
        f"{kind.name} ({kind.family})",
        "",
        _wrapped(kind.meaning),
        "",
        _wrapped(kind.advice.format(source="the value"), start="What helps:    "),
        f"Shape-driven:  {yes}",
    )
    return "\n".join(lines)


def _wrapped(text: str, start: str = "") -> str:
    """Wrap ``text`` for a terminal, with later lines under the text of the first; never split a word."""
    return textwrap.fill(
        text,
        width=_WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def break_text(identity: str) -> str:
    """Return what the registry of the installed torch says about a graph break.

    Raises:
        UsageError: it has no break with that id, or cannot be read.
    """
    registry = break_registry()
    history = registry.get(identity)
    if not history:
        near = guess(identity, registry) or f" It has {len(registry)} others."
        msg = f"The installed torch has no graph break {identity} in its registry.{near}"
        raise UsageError(msg)
    entry = _readable(history)
    lines = [f"{identity}: {entry['Gb_type']}"]
    if explanation := _unquoted(entry["Explanation"]):
        lines += ["", _wrapped(explanation)]
    if entry["Hints"]:
        lines += ["", "Hints:", *(_wrapped(hint.strip(), start="  - ") for hint in entry["Hints"])]
    return "\n".join([*lines, "", f"Context:  {entry['Context']}", f"More:     {_SITE}/{identity.lower()}.html"])


def break_registry() -> dict[str, list[dict[str, Any]]]:
    """Read the registry that ships inside torch's wheel; torch itself is not imported.

    Raises:
        UsageError: torch is not installed, or its wheel has no readable registry.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        msg = "The explanations of graph breaks come with torch, and torch is not installed."
        raise UsageError(msg)
    path = Path(spec.submodule_search_locations[0]) / "_dynamo" / "graph_break_registry.json"
    try:
        read: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"The graph-break registry of the installed torch cannot be read: {error}."
        raise UsageError(msg) from None
    return read


def _readable(history: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the newest version of an entry that is explained in prose: some hold a code fragment instead."""
    return next((entry for entry in history if _is_prose(entry["Explanation"])), history[0])


def _is_prose(text: str) -> bool:
    return " " in text and not text.startswith(('"', "_"))


def _unquoted(text: str) -> str:
    return " ".join(text.replace('"', " ").split())
