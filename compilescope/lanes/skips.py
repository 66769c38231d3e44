"""Which tests are skipped by their marks on this machine."""

from __future__ import annotations

import pytest

# Pytest's own reading of skip, skipif and xfail: it has no public name.
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks


def skip_reason(item: pytest.Item) -> str | None:
    """Return why a test does not run here; None if it does, or if only running it would show.

    Args:
        item: the test, with all marks that conftests have given it.
    """
    for place in (getattr(item, "function", None), getattr(item, "cls", None)):
        if getattr(place, "__unittest_skip__", False):
            return _told(getattr(place, "__unittest_skip_why__", ""))
    try:
        if (skip := evaluate_skip_marks(item)) is not None:
            return _told(skip.reason)
        xfail = evaluate_xfail_marks(item)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 (conditions are the user's code)
        return None
    if xfail is not None and not xfail.run and not item.config.option.runxfail:
        return f"xfail(run=False): {_told(xfail.reason)}"
    return None


def _told(reason: object) -> str:
    return str(reason) or "no reason is given"
