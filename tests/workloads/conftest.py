"""What tests of sources share: files in an empty working directory, and modules forgotten afterwards."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Write = Callable[..., Path]

_numbers = itertools.count()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def write(folder: Path) -> Write:
    """Write a file of a name that no module has had, and return its path."""

    def file(text: str, name: str = "source{}.py") -> Path:
        path = folder / name.format(next(_numbers))
        path.write_text(text)
        return path

    return file
