"""What is left of the plugin under a pytest that is too old for it: no test of ours passes unjudged."""

from __future__ import annotations

import pytest

from compilescope.plugin.ownership import is_ours


class Refusal:
    """Refuses every test that is ours."""

    def __init__(self, lack: str) -> None:
        self._lack = lack

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """End a test that is ours as an error, and say why."""
        if is_ours(item):
            raise pytest.fail.Exception(self._lack, pytrace=False)
