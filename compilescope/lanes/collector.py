"""A pytest plugin for one collection: writes which tests each mark expression selects. Load it with ``-p``.

Pytest is asked once, and then its own selection is run for every expression over what it collected. A
process for each would import the tests, and torch, again and again; several sessions in one process would
give tests with a backslash in their name another name each time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE: Final = "--compilescope-lanes-file"
LANE: Final = "--compilescope-lane"
_MARKS: Final = "markexpr"
"""Where pytest keeps the value of ``-m``."""
_IMPOSSIBLE: Final = "parametrize and not parametrize"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file's name and the expressions."""
    parser.addoption(FILE, dest="compilescope_lanes_file", help="write the selected tests to this file")
    parser.addoption(LANE, dest="compilescope_lanes", action="append", default=[], help="mark expression of one lane")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the tests with their marks, and what each lane selects of them, or why it cannot."""
    items, config = list(session.items), session.config
    # If pytest did not heed the expression, every lane would seem to select all.
    lanes = (_IMPOSSIBLE, *config.getoption("compilescope_lanes"))
    selected = {lane: _selected(lane, items, session) for lane in lanes}
    if selected.pop(_IMPOSSIBLE):
        message = "this version of pytest selects in a way that compilescope does not know"
        raise pytest.UsageError(message)
    told = {
        "collected": {item.nodeid: sorted({mark.name for mark in item.iter_markers()}) for item in items},
        "lanes": selected,
    }
    Path(config.getoption("compilescope_lanes_file")).write_text(json.dumps(told), encoding="utf-8")


def _selected(expression: str, items: Sequence[pytest.Item], session: pytest.Session) -> list[str]:
    """Return what is left of ``items`` under a mark expression.

    Raises:
        UsageError: pytest cannot read it.
    """
    config = session.config
    left, before = list(items), config.getoption(_MARKS)
    setattr(config.option, _MARKS, expression)
    try:
        config.hook.pytest_collection_modifyitems(session=session, config=config, items=left)
    except pytest.UsageError as error:
        message = f"in the lane {expression!r}: {error}"
        raise pytest.UsageError(message) from None
    finally:
        setattr(config.option, _MARKS, before)
    return [item.nodeid for item in left]
