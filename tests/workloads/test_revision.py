"""The revision of a workload is that of the repository that it lies in."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from compilescope.workloads.revision import revision_of

if TYPE_CHECKING:
    from pathlib import Path


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "--quiet")
    (tmp_path / "model.py").write_text("a = 1\n")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_revision_is_the_commit(repository: Path) -> None:
    assert revision_of(repository / "model.py") == _git(repository, "rev-parse", "HEAD")


def test_revision_says_that_files_differ(repository: Path) -> None:
    (repository / "model.py").write_text("a = 2\n")
    assert revision_of(repository) == _git(repository, "rev-parse", "HEAD") + "-dirty"


def test_no_repository_has_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert revision_of(tmp_path) is None


def test_no_git_has_no_revision(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert revision_of(repository) is None
