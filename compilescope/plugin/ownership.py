"""Which tests are ours: a suite may have its own fixture or marks of the same names.

It runs under every pytest, even one that is too old for the rest of the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from compilescope.errors import UsageError
from compilescope.plugin.marks import read_mark
from compilescope.plugin.names import FIXTURE, HOOKS, MARKS
from compilescope.wording import listing

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

WATCHING: Final = "_compilescope_watch"
"""The fixture that records a test; our public fixture requests it."""


class Foreign:
    """The marks that this suite registers under our names. A plugin, if there are any."""

    NAME: ClassVar = "compilescope-foreign-marks"

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Say which marks are ignored: whoever meant ours would take silence for a passing test.

        Not for --collect-only: programs read such lists.
        """
        if not config.getoption("collectonly"):
            names = listing(self.names)
            terminalreporter.write_line(f"compilescope ignores {names}: the suite registers its own.")


def settle(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Find the marks that are the suite's own: it registers them, and does not use them as ours."""
    registered = [name for name in MARKS if is_registered_by_suite(config, name)]
    uses = [mark for item in items for mark in item.iter_markers() if mark.name in registered]
    as_ours = {mark.name for mark in uses if _is_read_as_ours(mark)}
    names = tuple(dict.fromkeys(mark.name for mark in uses if mark.name not in as_ours))
    if names and not config.pluginmanager.hasplugin(Foreign.NAME):
        config.pluginmanager.register(Foreign(names), Foreign.NAME)


def is_registered_by_suite(config: pytest.Config, name: str) -> bool:
    """Whether the suite registers a mark of our name in words that do not mean ours."""
    own = f"{name}{MARKS[name]}"
    lines = [line for line in config.getini("markers") if line != own and _registered(line) == name]
    return bool(lines) and not any("compilescope" in line.lower() for line in lines)


def _registered(line: str) -> str:
    """Return the name of the mark that a line registers, as pytest reads it."""
    return line.partition(":")[0].partition("(")[0].strip()


def _is_read_as_ours(mark: pytest.Mark) -> bool:
    try:
        read_mark(mark.name, mark.args, mark.kwargs, own=("any",))
    except UsageError:
        return False
    except Exception:  # noqa: BLE001 (what is wrong is named by its repr, which is the suite's own code)
        return False
    return True


def marks_of(item: pytest.Item) -> list[pytest.Mark]:
    """Return the marks of a test that are ours, the closest first."""
    foreign: Foreign | None = item.config.pluginmanager.get_plugin(Foreign.NAME)
    theirs = () if foreign is None else foreign.names
    return [mark for mark in item.iter_markers() if mark.name in MARKS and mark.name not in theirs]


def is_ours(item: pytest.Item) -> bool:
    """Whether a test is marked or requests the fixture."""
    return _asks_for_fixture(item) or bool(marks_of(item))


def _asks_for_fixture(item: pytest.Item) -> bool:
    """Whether a test gets our fixture: its own fixture or argument of that name may hide it."""
    names = getattr(item, "fixturenames", None) or ()
    if WATCHING in names:
        return True
    definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).get(FIXTURE, ())
    for definition in reversed(definitions):
        if getattr(definition.func, "__module__", None) == HOOKS:
            return True
        if FIXTURE not in definition.argnames:
            return False
    return False
