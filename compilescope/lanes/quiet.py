"""What a collection must not do although a lane asks for it: write files, start workers, look at earlier runs."""

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
        # What failed last is known on a developer's machine, and not where lanes run.
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
"""Options by the name under which pytest keeps them, each with the value that does nothing."""


def quieten(options: Namespace) -> None:
    """Give every option that would leave something behind the value that does nothing.

    Args:
        options: as pytest has read them from the command line, ``addopts`` and ``PYTEST_ADDOPTS``.
    """
    for name, value in _QUIET.items():
        if hasattr(options, name):
            setattr(options, name, value)
