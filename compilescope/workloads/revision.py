"""The revision of the user's repository."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 5.0


def revision_of(place: Path) -> str | None:
    """Return the git commit that ``place`` is checked out at, with ``-dirty`` where files differ from it.

    None without git, without a repository, or without an answer within a few seconds.
    """
    git = shutil.which("git")
    folder = place if place.is_dir() else place.parent
    if git is None:
        return None
    try:
        commit = _ask(git, folder, "rev-parse", "HEAD")
        changed = commit is not None and _ask(git, folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return f"{commit}-dirty" if changed else commit


def _ask(git: str, folder: Path, *arguments: str) -> str | None:
    answer = subprocess.run(  # noqa: S603 (git, found on the user's own PATH, asked for facts)
        [git, "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    return answer.stdout.strip() if answer.returncode == 0 else None
