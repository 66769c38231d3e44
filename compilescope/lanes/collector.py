"""A pytest plugin for one collection: writes all tests, and the selected ones. Load it with ``-p``.

Every test is noted when it is collected, before anything can deselect it: ``-k``, ``-m`` and
``--deselect``, on the command line or in ``addopts``, and conftests act later.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from compilescope.lanes.ignored import hidden_tests
from compilescope.lanes.quiet import quieten
from compilescope.lanes.skips import skip_reason

if TYPE_CHECKING:
    from collections.abc import Generator

FILE: Final = "--compilescope-lanes-file"
BASE: Final = "--compilescope-lanes-base"


class _Sight:
    """Notes what pytest collects.

    Args:
        config: of this run of pytest.
        base: the folder that the names of tests and files are relative to.
    """

    def __init__(self, config: pytest.Config, base: str) -> None:
        self._config, self._base = config, base
        self.collected: dict[str, pytest.Item] = {}
        self.ignored: list[str] = []
        self.skipping: dict[str, str] = {}

    def name(self, item: pytest.Item) -> str:
        """Name a test by its file.

        Lanes may have different root folders, and pytest would name one test in several ways.
        """
        file, part = os.path.relpath(item.path, self._base), item.nodeid.partition("::")[2]
        return f"{file}::{part}" if part else file

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note a test."""
        self.collected[self.name(item)] = item

    @pytest.hookimpl(wrapper=True)
    def pytest_ignore_collect(self, collection_path: Path) -> Generator[None, bool | None, bool | None]:
        """Note ignored test files."""
        ignores = yield
        if ignores:
            hidden = hidden_tests(collection_path, self._config.getini("python_files"))
            self.ignored.extend(os.path.relpath(file, self._base) for file in hidden)
        return ignores

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that skips itself: its tests are never collected."""
        if report.skipped:
            file = os.path.relpath(self._config.rootpath / report.nodeid.partition("::")[0], self._base)
            said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipping[file] = said.removeprefix("Skipped: ")


_SIGHT: Final = pytest.StashKey[_Sight]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the output file and the base folder."""
    parser.addoption(FILE, dest="compilescope_lanes_file", help="write the collected tests to this file")
    parser.addoption(BASE, dest="compilescope_lanes_base", help="name files relative to this folder")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Disable plugins that start early, such as coverage."""
    quieten(early_config.known_args_namespace)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Keep the run from writing files and from starting workers."""
    quieten(config.option)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Start noting."""
    config.stash[_SIGHT] = sight = _Sight(config, config.getoption("compilescope_lanes_base"))
    config.pluginmanager.register(sight)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the tests with their marks, the selected and skipped ones, and the files that were not collected."""
    config = session.config
    sight = config.stash[_SIGHT]
    collection = {
        "collected": {
            name: sorted({mark.name for mark in item.iter_markers()}) for name, item in sight.collected.items()
        },
        "selected": [sight.name(item) for item in session.items],
        "skipped": {sight.name(item): why for item in session.items if (why := skip_reason(item)) is not None},
        "ignored": sight.ignored,
        "skipping": sight.skipping,
    }
    Path(config.getoption("compilescope_lanes_file")).write_text(json.dumps(collection), encoding="utf-8")
