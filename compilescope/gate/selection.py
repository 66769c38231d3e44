"""What a budget applies to: which compilations belong to which target."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from compilescope.analysis.summary import display_name, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from compilescope.record import CodeObject, Compilation, Recording, Target

_NAMED = 5
"""Most code objects that a finding names; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one limit applies to: a target's own compilations, or those of one resume function.

    Attributes:
        name: its name in findings.
        key: its name in a baseline.
        code: where it is, or None.
        compilations: the compiled ones, oldest first.
    """

    name: str
    key: str
    code: CodeObject | None
    compilations: tuple[Compilation, ...]


class Scope:
    """A recording as a budget sees it.

    Args:
        recording: what is judged.
        wanted: selectors of targets, or patterns over qualified names; none for all.
    """

    def __init__(self, recording: Recording, wanted: Sequence[str]) -> None:
        self.recording = recording
        self.codes: Mapping[str, CodeObject] = {code.id: code for code in recording.code_objects}
        known = {target.selector for target in recording.targets}
        # A function and a pattern of the same name are one target if both have the same outcome.
        self.targets: tuple[Target, ...] = tuple(
            dict.fromkeys(target for target in recording.targets if not wanted or target.selector in wanted)
        )
        patterns = [name for name in wanted if name not in known]
        by_pattern = {pattern: self._by_pattern(pattern) for pattern in patterns}
        self.unknown: tuple[str, ...] = tuple(pattern for pattern, found in by_pattern.items() if not found)
        self.groups: tuple[Group, ...] = tuple(self._groups(by_pattern, whole=not wanted and not recording.targets))

    def compilations(self) -> tuple[Compilation, ...]:
        """Return the compilations that the budget applies to, each once, oldest first."""
        meant = {id(compilation) for group in self.groups for compilation in group.compilations}
        return tuple(compilation for compilation in self.recording.compiled if id(compilation) in meant)

    def recorded(self, target: Target) -> int:
        """Return how many compilations of a target's code objects the recording holds."""
        return sum(compilation.code in target.codes for compilation in self.recording.compiled)

    def name(self, code: str) -> str:
        """Return a code object's name in findings."""
        found = self.codes.get(code)
        if found is None:
            return code
        resumed = self._root(found)
        return display_name(found) if resumed is None else f"{display_name(resumed)}, resumed at line {found.line},"

    def instead(self) -> str:
        """Say what was compiled, for a finding about a target that was not."""
        names = [
            self.name(compilation.code)
            for compilation in self.recording.compiled
            if self._parent(compilation.code) is None
        ]
        return f"these were compiled: {listed(names, shown=_NAMED)}" if names else "nothing was compiled"

    def _groups(self, by_pattern: Mapping[str, Sequence[Compilation]], *, whole: bool) -> Iterable[Group]:
        if whole:
            yield from self._by_code(self.recording.compiled)
            return
        for target in self.targets:
            yield from self._of_target(target.selector, self._of(target))
        for pattern, found in by_pattern.items():
            yield from self._of_target(pattern, found)

    def _of_target(self, label: str, found: Sequence[Compilation]) -> Iterable[Group]:
        own = tuple(compilation for compilation in found if self._parent(compilation.code) is None)
        code = self.codes.get(own[0].code) if own else None
        # Two files may have classes of the same name: accepting a finding in one must not excuse the other.
        key = label if code is None else f"{stable_file(code.file)}:{label}"
        yield Group(name=label, key=key, code=code, compilations=own)
        yield from self._by_code([compilation for compilation in found if self._parent(compilation.code) is not None])

    def _by_code(self, found: Iterable[Compilation]) -> Iterable[Group]:
        by_code: dict[str, list[Compilation]] = {}
        for compilation in found:
            by_code.setdefault(compilation.code, []).append(compilation)
        for code, members in by_code.items():
            known = self.codes.get(code)
            yield Group(name=self.name(code), key=self.key(code), code=known, compilations=tuple(members))

    def key(self, code: str) -> str:
        """Return a code object's name in a baseline: no line number, no absolute path."""
        known = self.codes.get(code)
        if known is None:
            return code
        resumed = self._root(known)
        if resumed is None:
            return f"{stable_file(known.file)}:{known.qualname}"
        # The name of a resume function contains the line after which it resumes.
        return f"resume function of {stable_file(resumed.file)}:{resumed.qualname}"

    def _root(self, code: CodeObject) -> CodeObject | None:
        """Return the code object that a chain of resume functions began with; None if ``code`` resumes nothing."""
        found: CodeObject | None = None
        seen = {code.id}
        parent = code.resumes
        while parent is not None and parent not in seen and parent in self.codes:
            seen.add(parent)
            found = self.codes[parent]
            parent = found.resumes
        return found

    def _parent(self, code: str) -> str | None:
        known = self.codes.get(code)
        return None if known is None else known.resumes

    def _of(self, target: Target) -> tuple[Compilation, ...]:
        mine = [compilation for compilation in self.recording.compiled if compilation.code in target.codes]
        if len(mine) == target.compiles + target.resumed:
            return tuple(mine)
        # A wrapper that many classes share (a decorator's inner function): take only the runs for this class.
        owned = [
            compilation
            for compilation in mine
            if compilation.owner is None or matches(target.selector, _names_of_owner(compilation.owner))
        ]
        return tuple(owned or mine)

    def _by_pattern(self, pattern: str) -> list[Compilation]:
        return [compilation for compilation in self.recording.compiled if self._is_meant(pattern, compilation)]

    def _is_meant(self, pattern: str, compilation: Compilation) -> bool:
        code = self.codes.get(compilation.code)
        if code is None:
            return matches(pattern, (compilation.code,))
        code = self._root(code) or code
        names = [code.qualname, f"{code.file}:{code.qualname}"]
        return matches(pattern, names + (_names_of_owner(compilation.owner) if compilation.owner else []))


def matches(pattern: str, names: Iterable[str]) -> bool:
    """Whether the pattern matches one of ``names``: the whole name, or the part after a dot."""
    return any(fnmatchcase(name, form) for name in names for form in (pattern, f"*.{pattern}"))


def _names_of_owner(owner: str) -> list[str]:
    return [owner, f"{owner}.forward"]


def stable_file(file: str) -> str:
    """Return a file name that is the same on every machine: outside the project, only its last part."""
    return file.rpartition("/")[2] if file.startswith("/") else file
