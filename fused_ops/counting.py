"""Count kernel launches by op, inside a ``with`` block and nowhere else.

A test that asserts "60 joint launches and no per-stream ones" wants a counter; a timing wants none.
The counter therefore lives in a context variable: outside the block the cost of a call is one
``ContextVar.get``, and nothing has to be patched or restored.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PER_STREAM: Final = "qk_norm_rope"
JOINT: Final = "joint_qkv_norm_rope"


@dataclass(slots=True)
class LaunchCounts:
    """Launches seen so far, by op name.

    A launch is one start of a Triton kernel from Python. An empty call launches nothing, the eager
    chain launches nothing, and a replay of a CUDA graph does not pass through Python: none of them
    counts.
    """

    by_op: dict[str, int] = field(default_factory=dict)

    @property
    def per_stream(self) -> int:
        """Launches of ``qk_norm_rope``."""
        return self.by_op.get(PER_STREAM, 0)

    @property
    def joint(self) -> int:
        """Launches of ``joint_qkv_norm_rope``."""
        return self.by_op.get(JOINT, 0)

    @property
    def total(self) -> int:
        """Launches of all ops."""
        return sum(self.by_op.values())

    def add(self, op: str) -> None:
        """Count one launch of ``op``."""
        self.by_op[op] = self.by_op.get(op, 0) + 1


_ACTIVE: Final[ContextVar[tuple[LaunchCounts, ...]]] = ContextVar("fused_ops_launch_counts", default=())


@contextmanager
def count_launches() -> Iterator[LaunchCounts]:
    """Count the launches made in this context (thread or task) while the block runs.

    Blocks nest: an outer block also counts what an inner one counts. After the block the counts
    stay readable and no longer change.

    Yields:
        The counts, updated as launches happen.
    """
    counts = LaunchCounts()
    token = _ACTIVE.set((*_ACTIVE.get(), counts))
    try:
        yield counts
    finally:
        _ACTIVE.reset(token)


def record_launch(op: str) -> None:
    """Tell every active counter that ``op`` was launched."""
    for counts in _ACTIVE.get():
        counts.add(op)
