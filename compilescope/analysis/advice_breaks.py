"""What helps against graph breaks, against recompiles of the resume functions after them, and against errors."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from compilescope.analysis.advising import Advice, place_of
from compilescope.analysis.facts import library_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.analysis.facts import Facts
    from compilescope.record import CompileError, GraphBreak, Scalar

_LOGGED: Final = re.compile(r"\.(debug|info|warning|warn|error|critical|exception|log)\(")
_REORDERING: Final = "reorder"
"""Part of the title of a break at a function that should run after the graph but whose arguments do not allow it."""
_AS_NAMED: Final = (
    "dynamic_shape_op",
    "data_dependent_branch",
    "explicit_graph_break",
    "compiler_disable",
    "no_fake_kernel",
)
_FOR_GOOD: Final = ("compiler_disable", "explicit_graph_break")
"""Kinds of breaks that the code makes on purpose."""


def for_break(site: GraphBreak, config: Mapping[str, Scalar]) -> Advice | None:
    """Return what removes a classified graph break; None if there is no general remedy."""
    text = site.text or ""
    if library_of(site.file) == "transformers" and "expert" in text:
        return Advice("experts")
    if site.kind == "print":
        ignoring = _REORDERING in site.reason.partition(" Explanation:")[0].lower()
        return Advice("print_ignored" if ignoring else "print", {"function": "print"})
    if site.kind == "skipped_function" and "warnings.warn(" in text:
        return Advice("print", {"function": "warnings.warn"})
    if site.kind == "logging":
        method = _LOGGED.search(text)
        return Advice("logging", {"method": method[1] if method else "<method>"})
    if site.kind == "item":
        branched = _branches(text) or config.get("capture_scalar_outputs") is True
        return Advice("item_branched" if branched else "item")
    library = library_of(site.file)
    if site.kind in _FOR_GOOD and library is not None:
        return Advice("break_of_library", {"library": library})
    return Advice(site.kind) if site.kind in _AS_NAMED else None


def _branches(text: str) -> bool:
    """Whether a line of code branches."""
    line = text.strip()
    if line.startswith(("if ", "elif ", "while ", "assert ")):
        return True
    try:
        return any(isinstance(node, ast.IfExp) for node in ast.walk(ast.parse(line)))
    except SyntaxError:
        return False


def advised(site: GraphBreak, config: Mapping[str, Scalar]) -> GraphBreak:
    """Return the break with the advice that removes it."""
    chosen = for_break(site, config)
    return replace(site, advice=None if chosen is None else chosen.text)


def for_resumed(site: GraphBreak | None, facts: Facts) -> Advice | None:
    """Return how to avoid a resume function's recompiles: remove the break before it, if a remedy is known."""
    if site is None or site.kind in _FOR_GOOD:
        return None
    remedy = for_break(site, facts.config)
    others = [for_break(other, facts.config) for other in facts.beside]
    if remedy is None or any(other != remedy for other in others):
        # Without this break, the next one still stops tracing: removing only one gains nothing.
        return None
    return Advice("resumed", {"place": f"{site.file}:{site.line}", "remedy": remedy.text})


def for_error(error: CompileError) -> Advice | None:
    """Return what helps against an error that ended a compilation; None if only the user can know."""
    if error.kind == "constraint_violation":
        source = error.source or "the marked dimension"
        return Advice("constraint_violation", {"place": place_of(error.where), "source": source})
    if error.kind in ("recompile_limit", "recompile_forbidden"):
        return Advice(error.kind)
    return Advice("no_fake_kernel") if error.kind == "no_fake_kernel" else None
