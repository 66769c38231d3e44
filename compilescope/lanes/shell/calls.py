"""Finds the calls of pytest in a shell script."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.errors import UsageError
from compilescope.lanes.shell.commands import commands
from compilescope.lanes.shell.launch import embedded_script, pytest_at
from compilescope.lanes.shell.parts import Group, Kind
from compilescope.lanes.shell.words import expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from compilescope.lanes.shell.parts import Command, Part
    from compilescope.lanes.shell.words import Word

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=")
_LEADING: Final = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "fi", "done"})
"""Shell keywords that may precede a command."""
_MARKS_A_CALL: Final = re.compile(r"\bpy\.?test\b")


@dataclass(frozen=True, slots=True)
class Scope:
    """The state in which a command runs.

    Attributes:
        folder: the working folder.
        variables: with their values; None if the value is not known.
        exported: the names of those that programs see.
        astray: why the working folder is not known; empty if it is known.
    """

    folder: Path
    variables: Mapping[str, str | None]
    exported: frozenset[str]
    astray: str = ""

    def with_variables(self, values: Mapping[str, str | None], *, exported: bool) -> Scope:
        """Return the scope with variables set."""
        names = self.exported | values.keys() if exported else self.exported
        return replace(self, variables=MappingProxyType({**self.variables, **values}), exported=frozenset(names))

    def after_cd(self, words: Sequence[Word]) -> Scope:
        """Return the scope after a command that goes to another folder."""
        said = " ".join(word.text for word in words)
        if len(words) != 2 or words[1].unknown or words[1].text.startswith(("-", "~")):  # noqa: PLR2004 (cd FOLDER)
            return replace(self, astray=f"the folder that `{said}` leads to is not known")
        folder = self.folder / words[1].text
        # A relative path from an unknown folder is unknown too.
        astray = "" if Path(words[1].text).is_absolute() else self.astray
        return replace(self, folder=folder, astray=astray).with_variables({"PWD": str(folder)}, exported=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of pytest.

    Attributes:
        words: the arguments of pytest.
        scope: its state.
    """

    words: tuple[Word, ...]
    scope: Scope


@dataclass(frozen=True, slots=True)
class Riddle:
    """A command that may call pytest and cannot be read.

    Attributes:
        text: the command.
        why: the reason, a clause.
    """

    text: str
    why: str


def scope_of(folder: Path, variables: Mapping[str, str | None]) -> Scope:
    """Return the scope in which a script begins.

    Args:
        folder: the working folder.
        variables: those that are set for it.
    """
    return Scope(folder, MappingProxyType({"PWD": str(folder), **variables}), frozenset(variables))


def calls(script: str, scope: Scope) -> Iterator[Call | Riddle]:
    """Yield the calls of pytest in a script, in their order.

    Conditions count as true, and each command in a loop or function counts as called once, so a variable that a loop
    sets has no known value.

    Args:
        script: its text.
        scope: in which it begins.
    """
    outer: list[Scope] = []
    try:
        for command in commands(script):
            if command is Group.OPEN:
                outer.append(scope)
            elif command is Group.CLOSE:
                # An unmatched ) ends a pattern of case.
                scope = outer.pop() if outer else scope
            elif not isinstance(command, Group):
                scope, found = _step(command, scope)
                yield from found
    except UsageError as error:
        if _MARKS_A_CALL.search(script):
            yield Riddle(" ".join(script.split()), f"{error}")


def _step(command: Command, scope: Scope) -> tuple[Scope, list[Call | Riddle]]:
    """Read one command; return the scope of the next, and its calls of pytest."""
    values, words = _assignments(command, scope)
    while words and words[0].text in _LEADING:
        words = words[1:]
    if not words:
        return scope.with_variables(values, exported=False), []
    texts = [word.text for word in words]
    if texts[0] in {"cd", "pushd", "popd"}:
        return scope.after_cd(words), []
    if texts[0] in {"export", "declare"}:
        return _export(words[1:], scope), []
    if texts[0] == "for" and len(texts) > 1:
        return scope.with_variables({texts[1]: None}, exported=False), []
    return scope, list(_found(words, command.here, scope.with_variables(values, exported=True)))


def _assignments(command: Command, scope: Scope) -> tuple[dict[str, str | None], list[Word]]:
    """Return the variables that are set before a command, and the words after them."""
    values: dict[str, str | None] = {}
    words: list[Word] = []
    for word in command.words:
        expanded = expand(word, scope.variables)
        bare = "".join(part.text if part.kind is Kind.TEXT and not part.quoted else " " for part in word)
        if not words and (found := _ASSIGNMENT.match(bare)):
            # The value of an assignment is not split.
            text = " ".join(one.text for one in expand(_quoted(word), scope.variables))
            known = not any(one.unknown for one in expanded)
            values[found[1]] = text[found.end() :] if known else None
        else:
            words.extend(expanded)
    return values, words


def _quoted(word: Sequence[Part]) -> list[Part]:
    return [replace(part, quoted=True) for part in word]


def _export(words: Sequence[Word], scope: Scope) -> Scope:
    values: dict[str, str | None] = {}
    for word in words:
        name, is_set, value = word.text.partition("=")
        known = value if is_set else scope.variables.get(name)
        values[name] = None if word.unknown else known
    return scope.with_variables(values, exported=True)


def _found(words: Sequence[Word], here: str, scope: Scope) -> Iterator[Call | Riddle]:
    texts = [word.text for word in words]
    inner = embedded_script(texts, here)
    if inner is not None:
        yield from calls(inner, scope)
        return
    try:
        at = pytest_at(texts, scope.folder)
    except UsageError as error:
        yield Riddle(" ".join(texts), str(error))
        return
    if at is not None:
        # `env A=b pytest` and `docker run -e A=b image pytest` set variables for it too.
        values = [word for word in words[:at] if _ASSIGNMENT.match(word.text)]
        yield Call(tuple(words[at:]), _export(values, scope))
