"""Why a compilation did not end in a cache entry, in words that hold no address."""

from __future__ import annotations

import re
from typing import Final

from compilescope.capture import _torch_errors, describe
from compilescope.record import CompileError, Location

_CONSTRAINT_SOURCE: Final = re.compile(r"Constraints violated \((?P<source>.+?)\)!")
_LONGEST: Final = 400


def describe_error(error: BaseException) -> CompileError:
    """Describe the exception that ended a ``_compile`` call."""
    # A limit under fullgraph says only that it is a hard one; what it is of stands in its cause.
    told = error.__cause__ if _torch_errors.is_recompile_limit(error) else None
    text = str(told or error)
    named = _CONSTRAINT_SOURCE.search(text)
    return CompileError(
        kind=_torch_errors.error_kind(error),
        type=type(error).__name__,
        message=_message(text) or type(error).__name__,
        source=describe.source(named["source"]) if named else None,
        where=_where(error),
    )


def _message(text: str) -> str:
    """Return the first lines that say something: the title, and the explanation where there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wanted = lines[:1] + [
        line for line in lines[1:] if line.startswith(("Explanation:", "- You marked", "RuntimeError"))
    ]
    return describe.shorten(describe.source(" ".join(wanted)), _LONGEST)


def _where(error: BaseException) -> Location | None:
    stack = _torch_errors.user_stack(error)
    if stack:
        # The place is the user's line: torch's own, where an operator is called from within torch, helps nobody.
        return describe.location_of(
            next((frame for frame in reversed(stack) if not _torch_errors.is_own(frame)), stack[-1])
        )
    pinned = (
        _torch_errors.specialising_place(error) if _torch_errors.error_kind(error) == "constraint_violation" else None
    )
    return describe.location_in(pinned) if pinned else None


def skipped(reason: str) -> CompileError:
    """Describe a frame that Dynamo decided to leave alone, by the first line of its reason."""
    first = reason.partition("\n")[0]
    return CompileError(kind="unsupported", type="skip", message=describe.shorten(first, _LONGEST))


def refused() -> CompileError:
    """Describe a call that a stance refused; what would have caused the compilation is told beside it."""
    return CompileError(
        kind="recompile_forbidden", type="RuntimeError", message="the stance forbids what no cache entry serves"
    )
