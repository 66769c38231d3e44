"""What other plugins do: an item that fails runs once more, and a mark comes when all others have looked."""

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark a test, as a plugin does that marks by the file or the name."""
    for item in items:
        if item.name == "test_marked_by_a_late_hook":
            item.add_marker(pytest.mark.no_shape_recompile("Block.forward"))


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
