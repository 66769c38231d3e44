"""Makes lanes from the calls of pytest in a shell script."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from compilescope.errors import UsageError
from compilescope.lanes.lane import Lane, Unread
from compilescope.lanes.shell.calls import Riddle, calls, scope_of
from compilescope.lanes.shell.options import needed, runs_tests
from compilescope.lanes.shell.words import Word
from compilescope.render.words import clip
from compilescope.wording import listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from compilescope.lanes.shell.calls import Call, Scope

_Lane = TypeVar("_Lane", Lane, Unread)
_COMMAND: Final = re.compile(r"(?:^|[\s/;&|('\"])py\.?test(?=$|[\s;&|)'\"])")
_OF_THE_MACHINE: Final = frozenset({"PATH", "HOME", "TMPDIR", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PWD"})
"""Variables that hold paths of the machine that runs a lane."""
_WIDTH: Final = 160
"""How many characters of a command are shown."""
_ADDOPTS: Final = "PYTEST_ADDOPTS"


@dataclass(frozen=True, slots=True)
class Script:
    """A shell script that may call pytest.

    Attributes:
        text: the script.
        folder: where it begins.
        variables: those that are set for it; None if the value is not known.
        source: its place, for the report; empty for one that the user typed.
    """

    text: str
    folder: Path
    variables: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    source: str = ""


def is_command(text: str) -> bool:
    """Whether a text calls pytest, and is not a mark expression."""
    return _COMMAND.search(text) is not None


def typed_lanes(text: str, folder: Path) -> list[Lane]:
    """Return the lanes of a command that the user typed.

    Args:
        text: such as ``pytest tests/unit -k fast``.
        folder: where it runs.

    Raises:
        UsageError: it cannot be read, or runs no test.
    """
    lanes: list[Lane] = []
    for lane in lanes_of(Script(text, folder)):
        if isinstance(lane, Unread):
            msg = f"The lane {lane.name} cannot be read: {lane.why}."
            raise UsageError(msg)
        lanes.append(lane)
    if not lanes:
        msg = f"The lane `{text}` runs no test."
        raise UsageError(msg)
    return lanes


def lanes_of(script: Script) -> Iterator[Lane | Unread]:
    """Yield the lanes of a script; a call of pytest that runs no tests, such as ``pytest --version``, is not a lane.

    Args:
        script: the script.
    """
    for call in calls(script.text, scope_of(script.folder, script.variables)):
        if isinstance(call, Riddle):
            yield Unread(_name(call.text), call.why, script.source)
        elif runs_tests(call.words):
            yield _lane(call, script)


def _lane(call: Call, script: Script) -> Lane | Unread:
    scope = call.scope
    name = _name(" ".join(["pytest", *(_shown(word) for word in call.words)]))
    if scope.folder != script.folder:
        name += f" in {os.path.relpath(scope.folder, script.folder)}"
    words = list(needed(call.words))
    if unknown := dict.fromkeys(text for word in words for text in word.unknown):
        return Unread(name, f"the value of {listing(unknown)} is not known", script.source)
    if scope.astray:
        return Unread(name, scope.astray, script.source)
    if not scope.folder.is_dir():
        return Unread(name, f"it runs in {scope.folder}, which does not exist here", script.source)
    arguments = tuple(text for word in words for text in word.files(scope.folder))
    return Lane(name, arguments, scope.folder, MappingProxyType(dict(_environment(scope))), script.source)


def _environment(scope: Scope) -> Iterator[tuple[str, str]]:
    for name in sorted(scope.exported - _OF_THE_MACHINE):
        value = scope.variables[name]
        if value is not None and not name.startswith("LD_"):
            yield name, _needed_options(value) if name == _ADDOPTS else value


def _needed_options(addopts: str) -> str:
    try:
        words = [Word(text) for text in shlex.split(addopts)]
    except ValueError:
        # Pytest reports what is wrong with it.
        return addopts
    return shlex.join(word.text for word in needed(words))


def _name(command: str) -> str:
    return f"`{clip(' '.join(command.split()), _WIDTH)}`"


def _shown(word: Word) -> str:
    """Write a word as one would type it; unknown values stay as written."""
    return word.text if word.unknown or word.pattern else shlex.quote(word.text)


def distinct(lanes: Iterable[Lane]) -> list[Lane]:
    """Return the lanes that run different things; equal lanes, as from a matrix of Pythons, are merged.

    Args:
        lanes: all lanes.
    """
    return _together(lanes, lambda lane: (lane.arguments, lane.folder, tuple(sorted(lane.environment.items()))))


def distinct_unread(lanes: Iterable[Unread]) -> list[Unread]:
    """Return the unread lanes, with equal ones merged.

    Args:
        lanes: all of them.
    """
    return _together(lanes, lambda lane: (lane.name, lane.why))


def _together(lanes: Iterable[_Lane], key: Callable[[_Lane], object]) -> list[_Lane]:
    groups: dict[object, list[_Lane]] = {}
    for lane in lanes:
        groups.setdefault(key(lane), []).append(lane)
    return [_counted(first, {one.source for one in others} - {first.source}) for first, *others in groups.values()]


def _counted(lane: _Lane, others: set[str]) -> _Lane:
    return replace(lane, source=f"{lane.source}, and {len(others)} more like it") if others else lane
