"""Wherever a program goes, and whatever it deletes, paths hold for the folder that the user is in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compilescope.workloads.folder import folder_kept, program_may_wander


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder within a folder."""
    folder = tmp_path / "outer" / "home"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def delete(home: Path) -> None:
    os.chdir("/")
    home.rmdir()
    home.parent.rmdir()


def test_program_that_leaves_is_followed_by_nobody(home: Path) -> None:
    with folder_kept(), program_may_wander():
        os.chdir("/")
    assert Path.cwd() == home


def test_there_is_a_folder_to_be_in_when_the_own_one_was_deleted(home: Path) -> None:
    with program_may_wander():
        delete(home)
    assert Path.cwd() == home.parent.parent


def test_nothing_is_written_elsewhere_when_the_own_folder_was_deleted(home: Path) -> None:
    with folder_kept(), program_may_wander():
        delete(home)
    with pytest.raises(FileNotFoundError):
        Path("report").touch()


def test_folder_that_was_made_anew_is_come_back_to(home: Path) -> None:
    with folder_kept(), program_may_wander():
        delete(home)
        home.mkdir(parents=True)
    assert Path.cwd() == home
