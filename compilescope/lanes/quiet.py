"""What a collection must not do even if a lane asks for it: write files, start workers, read earlier runs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

_QUIET: Final[Mapping[str, object]] = MappingProxyType(
    {
        # Files of pytest itself.
        "xmlpath": None,
        "log_file": None,
        "pastebin": None,
        "basetemp": None,
        # A developer's machine knows what failed last, and the machine of a lane does not.
        "lf": False,
        "failedfirst": False,
        "newfirst": False,
        "stepwise": False,
        "cacheclear": False,
        # pytest-cov, which would begin to measure, and write its data.
        "cov_source": [],
        "no_cov": True,
        # pytest-xdist's workers.
        "numprocesses": None,
        "dist": "no",
        "tx": [],
        "looponfail": False,
        # Reports of pytest-html, pytest-json-report, pytest-reportlog and allure-pytest.
        "htmlpath": None,
        "json_report": False,
        "report_log": None,
        "allure_report_dir": None,
        # compilescope's own.
        "compilescope_report": [],
        "compilescope_update_baseline": False,
    }
)
"""Options by pytest's internal name, each with the value that does nothing."""


def quieten(options: Namespace) -> None:
    """Set every option with side effects to the value that does nothing.

    Args:
        options: as pytest has read them from the command line, ``addopts`` and ``PYTEST_ADDOPTS``.
    """
    for name, value in _QUIET.items():
        if hasattr(options, name):
            setattr(options, name, value)
