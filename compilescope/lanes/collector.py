"""A pytest plugin for one collection: writes what pytest selected to a file. Load it with ``-p``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

OPTION: Final = "--compilescope-collected"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file's name."""
    parser.addoption(OPTION, dest="compilescope_collected", metavar="FILE", help="write the selected tests to FILE")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write each selected test with the names of its marks, in order."""
    file = session.config.getoption("compilescope_collected")
    if file is None:
        return
    found = {item.nodeid: sorted({mark.name for mark in item.iter_markers()}) for item in session.items}
    Path(file).write_text(json.dumps(found), encoding="utf-8")
