"""Finds in a finished recording what a function, a class, an instance or a pattern names."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from compilescope.record import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from compilescope.record import CodeObject, Recording


def target_in(recording: Recording, wanted: object) -> Target:
    """Return the outcome of ``wanted``, as the recorder reports it if ``wanted`` was one of its targets.

    Otherwise only its compilations are known: whether it was inlined or served by an older entry
    is not, so it counts as never reached without them.

    Raises:
        UsageError: it has no code that can be compiled.
    """
    wish = _pattern(wanted) if isinstance(wanted, str) else _object(wanted)
    recorded = next((target for target in recording.targets if target.selector == wish.label), None)
    if recorded is not None:
        return recorded
    own = {code.id for code in recording.code_objects if code.resumes is None and wish.is_meant(code)}
    resumed = {code.id for code in recording.code_objects if code.resumes in own}
    meant = [compilation for compilation in recording.compilations if wish.is_for(compilation.owner)]
    compiled = [compilation.code for compilation in meant if compilation.outcome == "compiled"]
    compiles = sum(code in own for code in compiled)
    tried = any(compilation.code in own for compilation in meant)
    return Target(
        selector=wish.label,
        status="compiled" if compiles else "skipped" if tried else "never_reached",
        compiles=compiles,
        resumed=sum(code in resumed for code in compiled),
        codes=tuple(code.id for code in recording.code_objects if code.id in own | resumed),
    )


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the user named.

    Attributes:
        label: how reports call it.
        is_meant: whether a code object belongs to it.
        is_for: whether a compilation that ran for this class does; a parent's do not count for a class that inherits.
    """

    label: str
    is_meant: Callable[[CodeObject], bool]
    is_for: Callable[[str | None], bool] = lambda _: True


def _pattern(pattern: str) -> _Wish:
    def is_meant(code: CodeObject) -> bool:
        names = [code.qualname, f"{code.file}:{code.qualname}"]
        for owner in _owners(code):
            names += [owner, f"{owner}.forward"]
        return any(fnmatchcase(name, form) for name in names for form in (pattern, f"*.{pattern}"))

    return _Wish(pattern, is_meant)


def _object(wanted: object) -> _Wish:
    from compilescope.capture import describe  # noqa: PLC0415 (imports torch)
    from compilescope.capture.targets import select  # noqa: PLC0415 (imports torch)

    selector = select(wanted)
    places = {(describe.path(code.co_filename), code.co_qualname, code.co_firstlineno) for code in selector.codes}

    def is_meant(code: CodeObject) -> bool:
        if (code.file, code.qualname, code.line) in places:
            return True
        return selector.owner in _owners(code) and "<locals>" in code.qualname

    return _Wish(selector.label, is_meant, selector.is_for)


def _owners(code: CodeObject) -> list[str]:
    return code.owner.split(", ") if code.owner else []
