"""One call of Dynamo's compile function, by name, whatever the version of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType


@dataclass(frozen=True, slots=True)
class Entry:
    """The parts of a cache entry that compilescope reads.

    Attributes:
        id: ``<frame>/<n>``.
        order: its n.
        recency: its place in the cache, in which torch moves the entry that matched to the front.
    """

    id: str
    order: int
    manager: Any
    backend: object
    recency: int | None = None


@dataclass(frozen=True, slots=True)
class CompileCall:
    """The arguments of one call of ``_compile``, by name, whatever the version."""

    code: CodeType
    globals: dict[str, Any]
    locals: dict[str, Any]
    closure: tuple[Any, ...]
    backend: object
    fullgraph: bool
    compile_id: str
    limit: int
    """The recompile limit in force, which may be the compiled callable's own."""
    entries: tuple[Entry, ...]
    """Every entry that the new frame was matched against, oldest first."""
    has_entry: bool
    """Whether the code object already has an entry in the region that compiles."""
