"""What pytest-rerunfailures does, in short: an item that fails runs once more, and its last run counts."""

import pytest
from _pytest.runner import runtestprotocol


def pytest_runtest_protocol(item: pytest.Function, nextitem: pytest.Item | None) -> bool | None:
    """Run an item of the name twice if it fails."""
    if "flaky" not in item.name:
        return None
    for _turn in range(2):
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
