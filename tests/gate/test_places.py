"""However the project's own folders are spelt, the files of a recording are found in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilescope.gate.budget import Budget
from compilescope.gate.places import spelt_as_recorded

HOME = Path("/work/project/tools")


@pytest.mark.parametrize(
    ("place", "spelt"),
    [
        ("src/pkg", ("src/pkg",)),
        ("./src//pkg/", ("src/pkg",)),
        ("src/../pkg", ("pkg",)),
        ("/work/project/tools/src", ("src",)),
        (".", (".",)),
        ("..", ("/work/project", ".")),
        ("../pkg", ("/work/project/pkg",)),
        ("../tools", (".",)),
        ("*/pkg/*.py", ("*/pkg/*.py",)),
    ],
)
def test_places_are_spelt_as_files_are_recorded(place: str, spelt: tuple[str, ...]) -> None:
    assert spelt_as_recorded((place,), HOME) == spelt


@pytest.mark.parametrize("file", ["model.py", "/work/project/model.py", "/work/project/pkg/model.py"])
def test_folder_above_holds_the_files_here_and_there(file: str) -> None:
    budget = Budget(max_own_graph_breaks=0, own=spelt_as_recorded(("..",), HOME))
    assert budget.is_own(file)
    assert not budget.is_own("/work/other/model.py")
