"""What the code does with a guarded Python value: what advice needs to know besides the guard.

It is read from the function's source. No code of the user's runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from compilescope.capture import describe
from compilescope.capture.value_uses import use_of

if TYPE_CHECKING:
    from compilescope.record import EntryMiss, Failure, Use

_VALUES: Final = ("int", "float", "bool")


def with_uses(miss: EntryMiss) -> EntryMiss:
    """Return the missed entry with what the code does with each value, which reads and parses the user's source."""
    return replace(miss, failing=tuple(replace(failure, use=_use(failure)) for failure in miss.failing))


def _use(failure: Failure) -> Use | None:
    if failure.where is None or failure.actual_type not in _VALUES:
        return None
    file = describe.absolute(failure.where.file)
    return None if file is None else use_of(failure.source, file, failure.where.line)
