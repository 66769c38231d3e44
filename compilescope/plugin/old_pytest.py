"""What is left of the plugin under a pytest that is too old for it: none of our tests passes unchecked."""

from __future__ import annotations

import pytest

from compilescope.plugin.ownership import is_ours


class Refusal:
    """Refuses all of our tests."""

    def __init__(self, lack: str) -> None:
        self._lack = lack

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Make one of our tests an error, and say why."""
        if is_ours(item):
            raise pytest.fail.Exception(self._lack, pytrace=False)
