"""`compilescope lanes -m EXPR`: pytest itself says what each lane selects; what is left over is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .project import INI

if TYPE_CHECKING:
    from pathlib import Path

    from .project import Lanes

NAMED = """
import pytest

@pytest.mark.parametrize("text", ["a\\nb", "ü", "c\\\\d"])
def test_text(text): ...
"""
GPU, CPU = ("-m", "core_model and cuda"), ("-m", "core_model and cpu")


def test_parity_test_that_no_lane_selects_is_listed_with_its_marks(lanes: Lanes) -> None:
    ended = lanes(*GPU, *CPU, "--", "tests/")
    assert ended.exit_code == 1
    assert "4 tests in no lane:" in ended.stdout
    assert "tests/test_model.py::test_parity  marked core_model" in ended.stdout
    assert "tests/test_model.py::test_lengths (3 cases)  marked parametrize" in ended.stdout
    assert "test_kernel" not in ended.stdout
    assert "lane 'core_model and cuda' selects 1 of 6 tests" in ended.stdout


def test_verbose_lists_every_case(lanes: Lanes) -> None:
    shown = lanes(*GPU, *CPU, "-v").stdout
    assert "test_lengths[77]" in shown
    assert "cases)" not in shown


def test_every_test_in_some_lane(lanes: Lanes) -> None:
    ended = lanes("-m", "core_model", "-m", "not core_model")
    assert ended.exit_code == 0
    assert "Every test is in some lane." in ended.stdout


def test_lane_that_selects_nothing_is_told(lanes: Lanes) -> None:
    ended = lanes("-m", "core_model", "-m", "not core_model", "-m", "slow")
    assert ended.exit_code == 1
    assert "lane 'slow' SELECTS NO TEST" in ended.stdout


def test_lanes_may_be_settings(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.compilescope]\nlanes = ['cuda', 'cpu']\n")
    assert "lane 'cpu' selects 1 of 6 tests" in lanes().stdout
    assert "lane 'cpu'" not in lanes("-m", "core_model").stdout


def test_selection_of_the_projects_own_options_hides_nothing(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI + "addopts = -m cuda\n")
    ended = lanes("-m", "cuda")
    assert ended.exit_code == 1
    assert "5 tests in no lane:" in ended.stdout


def test_arguments_go_to_pytest(lanes: Lanes) -> None:
    assert "selects 1 of 1 test" in lanes("-m", "core_model", "--", "tests/test_model.py::test_parity").stdout


def test_names_with_backslashes_are_the_same_in_every_lane(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_model.py").write_text(NAMED)
    assert lanes("-m", "not slow", "-m", "not cuda").exit_code == 0


def test_nothing_is_run_and_nothing_left_behind(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_model.py").write_text("def test_it():\n    raise SystemExit\n")
    assert lanes("-m", "not slow").exit_code == 0
    assert {entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")} == {"pytest.ini", "tests"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Give the lanes: -m EXPR or --lane COMMAND for each, --ci FILE"),
        (("-m", "core_model and ("), "in the lane 'core_model and (': "),
        (("-m", "cuda", "--", "nowhere/"), "file or directory not found: nowhere/"),
    ],
)
def test_wrong_usage_is_told(lanes: Lanes, arguments: tuple[str, ...], sentence: str) -> None:
    ended = lanes(*arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert sentence in ended.stderr


def test_folder_without_a_test_is_told(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ended = lanes("-m", "cuda", "--", "empty/")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "pytest empty/ collects no tests" in ended.stderr


def test_tests_that_cannot_be_imported_are_no_pass(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_broken.py").write_text("import no_such_module\n")
    ended = lanes("-m", "core_model", "-m", "not core_model")
    assert ended.exit_code == 2
    assert "No module named 'no_such_module'" in ended.stderr
