"""What every test of the lanes asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from compilescope.cli import main

from .project import INI, TESTS

if TYPE_CHECKING:
    from pathlib import Path

    from .project import Lanes


@pytest.fixture
def lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lanes:
    """Run the audit in a small project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # The plugins of this environment would double the time of each collection.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_model.py").write_text(TESTS)
    return lambda *arguments: CliRunner().invoke(main, ["lanes", *arguments], catch_exceptions=False)
