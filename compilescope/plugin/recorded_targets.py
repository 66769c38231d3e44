"""Finds in a finished recording what a user calls by a function, a class, an instance or a pattern."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from compilescope.record import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from compilescope.record import CodeObject, Recording


def target_in(recording: Recording, wanted: object) -> Target:
    """Return what became of ``wanted``, by the recorder's own word where it was told of it.

    A recorder that was not told can only be asked what it compiled: whether the target was inlined
    or served from an older entry is not known, and such a target counts as never reached.

    Raises:
        UsageError: it has no code that could be compiled.
    """
    label, is_meant = _pattern(wanted) if isinstance(wanted, str) else _object(wanted)
    told = next((target for target in recording.targets if target.selector == label), None)
    if told is not None:
        return told
    own = {code.id for code in recording.code_objects if code.resumes is None and is_meant(code)}
    resumed = {code.id for code in recording.code_objects if code.resumes in own}
    compiles = sum(one.code in own for one in recording.compiled)
    tried = any(one.code in own for one in recording.compilations)
    return Target(
        selector=label,
        status="compiled" if compiles else "skipped" if tried else "never_reached",
        compiles=compiles,
        resumed=sum(one.code in resumed for one in recording.compiled),
        codes=tuple(one.id for one in recording.code_objects if one.id in own | resumed),
    )


def _pattern(pattern: str) -> tuple[str, Callable[[CodeObject], bool]]:
    def is_meant(code: CodeObject) -> bool:
        names = [code.qualname, f"{code.file}:{code.qualname}"]
        for owner in _owners(code):
            names += [owner, f"{owner}.forward"]
        return any(fnmatchcase(name, form) for name in names for form in (pattern, f"*.{pattern}"))

    return pattern, is_meant


def _object(wanted: object) -> tuple[str, Callable[[CodeObject], bool]]:
    from compilescope.capture import describe  # noqa: PLC0415 (imports torch)
    from compilescope.capture.targets import select  # noqa: PLC0415 (imports torch)

    selector = select(wanted)
    places = {(describe.path(code.co_filename), code.co_qualname, code.co_firstlineno) for code in selector.codes}

    def is_meant(code: CodeObject) -> bool:
        if (code.file, code.qualname, code.line) in places:
            return True
        return selector.owner in _owners(code) and "<locals>" in code.qualname

    return selector.label, is_meant


def _owners(code: CodeObject) -> list[str]:
    return code.owner.split(", ") if code.owner else []
