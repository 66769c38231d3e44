"""A test that every lane that selects it skips runs nowhere, as far as this machine can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .project import Lanes

ALL = ("-m", "not slow", "-m", "not cuda")
HEAD = "import sys\nimport unittest\nimport pytest\n\nCUDA = False\n\n"
RUNS = "def test_other(): ...\n"


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ("@pytest.mark.skip(reason='too old')", "too old"),
        ("@pytest.mark.skip('too old')", "too old"),
        ("@pytest.mark.skip", "unconditional skip"),
        ("@pytest.mark.skipif(not CUDA, reason='needs CUDA')", "needs CUDA"),
        ("@pytest.mark.skipif('not CUDA')", "condition: not CUDA"),
        ("@pytest.mark.skipif(False, reason='a')\n@pytest.mark.skipif(True, reason='b')", "b"),
        ("@unittest.skip('by unittest')", "by unittest"),
        ("@pytest.mark.xfail(run=False, reason='crashes')", "xfail(run=False): crashes"),
        ("@pytest.mark.parametrize('x', [])", "got empty parameter set"),
    ],
)
def test_test_that_every_lane_skips_is_told_with_the_reason(lanes: Lanes, tmp_path: Path, mark: str, why: str) -> None:
    arguments = "x" if "parametrize" in mark else ""
    (tmp_path / "tests" / "test_model.py").write_text(HEAD + f"{mark}\ndef test_it({arguments}): ...\n\n" + RUNS)
    ended = lanes(*ALL)
    assert ended.exit_code == 1
    assert "1 test skipped on this machine wherever selected:\n  tests/test_model.py::test_it" in ended.stdout
    assert f"skipped here: {why}" in ended.stdout
    assert "lane 'not slow' selects 2 of 2 tests, skips 1 of them here" in ended.stdout


@pytest.mark.parametrize(
    "mark",
    [
        "@pytest.mark.skipif(CUDA, reason='only without CUDA')",
        "@pytest.mark.skipif('no_such_name')",
        "@pytest.mark.skipif(object())",
        "@pytest.mark.skip(no_such_argument=1)",
        "@pytest.mark.xfail(reason='wrong')",
    ],
)
def test_what_is_not_known_to_be_skipped_is_not_told(lanes: Lanes, tmp_path: Path, mark: str) -> None:
    (tmp_path / "tests" / "test_model.py").write_text(HEAD + f"{mark}\ndef test_it(): ...\n")
    assert lanes(*ALL).exit_code == 0


def test_condition_of_xfail_that_raises_hides_no_skip(lanes: Lanes, tmp_path: Path) -> None:
    marks = "@pytest.mark.xfail('no_such_name')\n@pytest.mark.skip(reason='too old')\n"
    (tmp_path / "tests" / "test_model.py").write_text(HEAD + marks + "def test_it(): ...\n")
    assert "test_it  skipped here: too old" in lanes(*ALL).stdout


def test_skip_inside_of_a_test_is_not_told(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_model.py").write_text(HEAD + "def test_it():\n    pytest.skip('later')\n")
    assert lanes(*ALL).exit_code == 0


def test_class_that_is_skipped_takes_its_tests_along(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_model.py").write_text(
        HEAD + "@unittest.skip('old')\nclass TestIt(unittest.TestCase):\n    def test_it(self): ...\n"
    )
    assert "TestIt::test_it  skipped here: old" in lanes(*ALL).stdout


def test_skip_that_a_conftest_adds_in_some_lane_only_is_no_finding(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "conftest.py").write_text(
        "import pytest\n\n"
        "def pytest_collection_modifyitems(config, items):\n"
        "    if config.option.markexpr == 'not slow':\n"
        "        [item.add_marker(pytest.mark.skip(reason='not in this lane')) for item in items]\n"
    )
    ended = lanes(*ALL)
    assert "lane 'not slow' selects 6 of 6 tests, skips 6 of them here" in ended.stdout
    assert "1 test skipped on this machine wherever selected" in ended.stdout
    assert "tests/test_model.py::test_kernel  skipped here: not in this lane" in ended.stdout


def test_skips_may_be_allowed(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_model.py").write_text(HEAD + "@pytest.mark.skip\ndef test_it(): ...\n")
    (tmp_path / "tests" / "test_gpu.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    ended = lanes(*ALL, "--allow-skipped")
    assert ended.exit_code == 0
    assert "test_it  skipped here: unconditional skip" in ended.stdout
    assert "tests/test_gpu.py  skips itself here: could not import 'no_such_module'" in ended.stdout
