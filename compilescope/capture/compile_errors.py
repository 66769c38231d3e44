"""Why a compilation produced no cache entry, in words that contain no address."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from compilescope.capture import _torch_errors, _torch_places, describe, places, resume_lines
from compilescope.record import CompileError

if TYPE_CHECKING:
    from types import CodeType

    from compilescope.capture.resume_lines import ResumeLines

_CONSTRAINT_SOURCE: Final = re.compile(r"Constraints violated \((?P<source>.+?)\)!")
_LONGEST: Final = 400


def describe_error(error: BaseException, code: CodeType | None = None) -> CompileError:
    """Describe the exception that ended a ``_compile`` call of ``code``."""
    # Under fullgraph, the limit error only says that it is a hard limit; its cause says which one.
    cause = error.__cause__ if _torch_errors.is_recompile_limit(error) else None
    text = str(cause or error)
    where = _where(error, None if code is None else resume_lines.of(code))
    named = _CONSTRAINT_SOURCE.search(text)
    return CompileError(
        kind=_torch_errors.error_kind(error),
        type=type(error).__name__,
        message=_message(text) or type(error).__name__,
        source=describe.source(named["source"]) if named else None,
        where=where.user,
        torch_where=where.torch,
    )


def _message(text: str) -> str:
    """Return the first meaningful lines: the title, and the explanation if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wanted = lines[:1] + [
        line for line in lines[1:] if line.startswith(("Explanation:", "- You marked", "RuntimeError"))
    ]
    return describe.shorten(describe.source(" ".join(wanted)), _LONGEST)


def _where(error: BaseException, lines: ResumeLines | None) -> places.Place:
    stack = _torch_errors.user_stack(error)
    if stack:
        return places.choose(stack, lines).describe()
    if _torch_errors.error_kind(error) == "constraint_violation":
        for place, text in _torch_places.specialising_places(error):
            pinned = places.kept(place).corrected(lines).describe()
            if pinned.user is not None:
                return pinned
            written = describe.location_in(text)
            if written is not None:
                return places.Place(written, None)
    return places.Place(None, None)


def skipped(reason: str) -> CompileError:
    """Describe a frame that Dynamo decided to skip, by the first line of its reason."""
    first = reason.partition("\n")[0]
    return CompileError(kind="unsupported", type="skip", message=describe.shorten(first, _LONGEST))


def refused() -> CompileError:
    """Describe a call that a stance refused; its recompile says what would have caused the compilation."""
    return CompileError(
        kind="recompile_forbidden",
        type="RuntimeError",
        message="no cache entry matches the call, and the stance forbids compiling",
    )
