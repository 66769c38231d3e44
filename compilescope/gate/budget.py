"""Limits that a project sets for itself. Knows neither pytest nor torch."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

from compilescope.analysis.kinds import KINDS
from compilescope.errors import UsageError
from compilescope.gate.selection import matches
from compilescope.wording import guess

if TYPE_CHECKING:
    from collections.abc import Iterable


class Budget(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a run may do. ``None`` sets no limit.

    Whatever the limits, a run must end well, compile something, compile every target, hit no recompile limit, run
    nothing eagerly, and leave no recompile unexplained. Exceptions must be allowed by name.

    Attributes:
        targets: selectors of the recording's targets, or patterns over qualified names; empty for all targets of the
            recording, or all code objects if it has no targets.
        max_compiles: of each target; its resume functions are counted separately, each with the same limit.
        max_recompiles: of each target, resume functions separately too.
        max_recompiles_by_kind: a limit for a kind of cause. A recompile whose kinds are all named here counts only
            here; any other counts toward ``max_recompiles`` too.
        no_shape_recompile: forbids recompiles that general shapes would have avoided.
        max_graph_breaks: sites, over the whole recording.
        max_own_graph_breaks: sites in files that ``own`` matches.
        own: folders, files or patterns, as the report shows them: ``src/pkg``.
        allow_fallbacks: kinds of fallback, or names of code objects, that may run eagerly; ``*`` allows all.
        allow_uncompiled: targets that need not be compiled themselves.
        allow_unknown: allows recompiles with a cause of kind ``unknown`` or ``guard_error``.
        min_operators: calls captured by the graphs; the largest graph of each code object counts.
        max_guards: of one compilation.
        max_compile_seconds: of all attempts together.
        max_relative_l2: the distance of each point of a sweep from eager; needs ``--parity``.

    Raises:
        UsageError: a limit is negative or not a number, a kind is unknown, or an option lacks another that it needs.
    """

    targets: tuple[str, ...] = ()
    max_compiles: int | None = None
    max_recompiles: int | None = None
    max_recompiles_by_kind: dict[str, int] = {}
    no_shape_recompile: bool = False
    max_graph_breaks: int | None = None
    max_own_graph_breaks: int | None = None
    own: tuple[str, ...] = ()
    allow_fallbacks: tuple[str, ...] = ()
    allow_uncompiled: tuple[str, ...] = ()
    allow_unknown: bool = False
    min_operators: int | None = None
    max_guards: int | None = None
    max_compile_seconds: float | None = None
    max_relative_l2: float | None = None

    def __post_init__(self) -> None:
        """Refuse limits that can never report anything."""
        for name, limit in (*self._limits(), *self.max_recompiles_by_kind.items()):
            if limit is not None and not (math.isfinite(limit) and limit >= 0):
                msg = f"The limit {name} must be 0 or more, not {limit}."
                raise UsageError(msg)
        for kind in self.max_recompiles_by_kind:
            if kind not in KINDS:
                near = guess(kind, KINDS) or " `compilescope explain` lists them."
                msg = f"{kind!r} is not a kind of cause.{near}"
                raise UsageError(msg)
        if self.max_own_graph_breaks is not None and not self.own:
            msg = "max-own-graph-breaks needs own: the paths of the project's own code, such as src/pkg."
            raise UsageError(msg)

    def _limits(self) -> Iterable[tuple[str, float | None]]:
        names = ("max_compiles", "max_recompiles", "max_graph_breaks", "max_own_graph_breaks", "min_operators")
        for name in (*names, "max_guards", "max_compile_seconds", "max_relative_l2"):
            yield name.replace("_", "-"), getattr(self, name)

    def is_own(self, file: str) -> bool:
        """Whether ``file`` is the project's own code."""
        places = [place.removeprefix("./").rstrip("/") for place in self.own]
        return any(
            (place == "." and not file.startswith("/"))
            or file == place
            or file.startswith(f"{place}/")
            or fnmatchcase(file, place)
            for place in places
        )

    def allows_fallback(self, kind: str, names: Iterable[str]) -> bool:
        """Whether code with these names may run eagerly for a reason of this kind."""
        known = list(names)
        return any(pattern == kind or matches(pattern, known) for pattern in self.allow_fallbacks)
