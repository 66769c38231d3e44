"""The test files in paths that pytest ignores when it collects."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_NEVER: Final = ("__pycache__", "*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")
"""Folders that pytest does not enter by default. They hold copies, and nobody misses their tests."""
_ENVIRONMENT: Final = ("pyvenv.cfg", os.path.join("conda-meta", "history"))  # noqa: PTH118 (a name in a folder, no path)
"""Files that mark a folder as a Python environment, which pytest does not enter either."""


def hidden_tests(path: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Yield the test files that ``path`` is or contains.

    Args:
        path: a file or folder that pytest ignores.
        patterns: the project's ``python_files``.
    """
    for file in [path] if path.is_file() else _walk(path):
        if file.suffix == ".py" and any(_matches(file, pattern) for pattern in patterns):
            yield file


def _walk(folder: Path) -> Iterator[Path]:
    if not _is_entered(folder):
        return
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(_entered(here, folders))
        for name in sorted(files):
            yield here / name


def _entered(here: Path, folders: Iterable[str]) -> Iterator[str]:
    return (name for name in folders if _is_entered(here / name))


def _is_entered(folder: Path) -> bool:
    if any(fnmatch(folder.name, pattern) for pattern in _NEVER):
        return False
    return not any((folder / name).is_file() for name in _ENVIRONMENT)


def _matches(file: Path, pattern: str) -> bool:
    """Whether a file is a test file, as pytest reads a pattern: one with a slash matches the whole path."""
    return fnmatch(str(file), f"*/{pattern}") if "/" in pattern else fnmatch(file.name, pattern)
