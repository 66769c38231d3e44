"""Finds out what a command does with pytest: start it in a known way, or something that cannot be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from compilescope.errors import UsageError
from compilescope.lanes.shell import programs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SCRIPT_OPTION: Final = re.compile(r"-[a-z]*c")
"""The option of a shell whose value is a script: ``-c``, or ``-exc``."""
_TEST: Final = re.compile(r"\b(py)?tests?\b")


def embedded_script(words: Sequence[str], here: str) -> str | None:
    """Return the script that a command passes to a shell, as ``bash -c`` does; None if it passes none.

    Args:
        words: of the command.
        here: its here-document.
    """
    names = [_name(word) for word in words]
    if names[0] == "eval":
        return " ".join(words[1:])
    shell = next((at for at, name in enumerate(names) if name in programs.SHELLS), None)
    if shell is None or (names[0] in programs.MENTION and not programs.RUN & set(words[:shell])):
        return None
    for at in range(shell + 1, len(words) - 1):
        if _SCRIPT_OPTION.fullmatch(words[at]):
            return words[at + 1]
    return here or None


def pytest_at(words: Sequence[str], folder: Path) -> int | None:
    """Return where the arguments of pytest begin in a command that starts it; None if it does not.

    Args:
        words: of the command, without variables that are set before it.
        folder: where it runs.

    Raises:
        UsageError: it may start pytest, in a way that cannot be read.
    """
    skipped = _module_at(words)
    names = [_name(word) for word in words[skipped:]]
    leader = names[0]
    if leader in programs.PYTEST:
        return skipped + 1
    at = next((place for place in range(1, len(names)) if _starts_pytest(words[skipped:], names, place)), None)
    before = set(words[skipped:][:at])
    launches = leader in programs.LAUNCH or (leader in programs.LAUNCH_BY_RUN and bool(programs.RUN & before))
    if programs.INSTALL & before or (leader in programs.MENTION and not launches):
        return None
    # The interpreter, or its launcher, may be in a variable: `$PYTHON -m pytest`.
    launches = launches or (at is not None and leader.startswith("$") and words[skipped + at - 1] == "-m")
    if at is not None and launches:
        return skipped + at + 1
    if at is not None or any("pytest.main" in word for word in words):
        msg = "it calls pytest in a way that compilescope does not know"
        raise UsageError(msg)
    _refuse_what_hides_it(names, words, folder)
    return None


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _module_at(words: Sequence[str]) -> int:
    """Return the position of the module that ``python -m`` starts; 0 in another command."""
    if not programs.PYTHON.fullmatch(_name(words[0])):
        return 0
    for at, word in enumerate(words[:-1]):
        if word == "-m":
            return at + 1
    return 0


def _starts_pytest(words: Sequence[str], names: Sequence[str], at: int) -> bool:
    return names[at] in programs.PYTEST and words[at - 1] not in programs.VALUED


def _refuse_what_hides_it(names: Sequence[str], words: Sequence[str], folder: Path) -> None:
    """Refuse a command that starts tests from its own configuration file.

    Raises:
        UsageError: it is one.
    """
    tasks = programs.TASKS.intersection(names) or (
        names[0] in programs.TASK_RUNNERS and any(_TEST.search(word) for word in words)
    )
    if tasks or any(_is_script_with_pytest(folder / word) for word in words if word.endswith(".sh")):
        msg = "compilescope does not look into what it calls"
        raise UsageError(msg)


def _is_script_with_pytest(file: Path) -> bool:
    try:
        return "pytest" in file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
