"""All tests are those that exist before any is deselected, whoever deselects it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .project import INI

if TYPE_CHECKING:
    from pathlib import Path

    from .project import Lanes

EVERY = ("-m", "core_model", "-m", "not core_model")
"""Two lanes that leave nothing over by themselves."""
SILENT = "def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'parity' not in i.name]\n"
DESELECTING = """
def pytest_collection_modifyitems(config, items):
    gone = [item for item in items if "parity" in item.name]
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in gone]
"""
FIRST = """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "parity" not in item.name]
    return (yield)
"""
BY_OPTION = """
import pytest

def pytest_collection_modifyitems(config, items):
    if config.option.markexpr == "core_model":
        items[:] = [item for item in items if "parity" not in item.name]
"""


@pytest.mark.parametrize(
    "options",
    [
        ("-k", "not parity"),
        ("--deselect", "tests/test_model.py::test_parity"),
        ("--deselect=tests/test_model.py::test_par",),
        ("-k", "kernel or shapes or lengths"),
    ],
)
def test_test_that_an_option_deselects_in_every_lane_is_in_no_lane(lanes: Lanes, options: tuple[str, ...]) -> None:
    ended = lanes(*EVERY, "--", "tests/", *options)
    assert ended.exit_code == 1
    assert "1 test in no lane:\n  tests/test_model.py::test_parity  marked core_model" in ended.stdout


@pytest.mark.parametrize("options", ["-k 'not parity'", "--deselect tests/test_model.py::test_parity"])
def test_test_that_the_projects_own_options_deselect_is_in_no_lane(lanes: Lanes, tmp_path: Path, options: str) -> None:
    (tmp_path / "pytest.ini").write_text(INI + f"addopts = {options}\n")
    ended = lanes(*EVERY)
    assert ended.exit_code == 1
    assert "1 test in no lane:\n  tests/test_model.py::test_parity" in ended.stdout


def test_test_that_the_environment_deselects_is_in_no_lane(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'not parity'")
    assert "1 test in no lane:\n  tests/test_model.py::test_parity" in lanes(*EVERY).stdout


@pytest.mark.parametrize("conftest", [SILENT, DESELECTING, FIRST, BY_OPTION])
def test_test_that_a_conftest_removes_is_in_no_lane(lanes: Lanes, tmp_path: Path, conftest: str) -> None:
    (tmp_path / "tests" / "conftest.py").write_text(conftest)
    ended = lanes(*EVERY)
    assert ended.exit_code == 1
    assert "1 test in no lane:\n  tests/test_model.py::test_parity" in ended.stdout


def test_mark_that_a_conftest_adds_counts(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "conftest.py").write_text(
        "def pytest_itemcollected(item):\n    item.add_marker('slow' if 'parity' in item.name else 'cpu')\n"
    )
    assert "test_parity  marked core_model, slow" in lanes("-m", "not slow").stdout


def test_what_a_conftest_does_in_one_lane_stays_in_it(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "conftest.py").write_text(
        "def pytest_collection_modifyitems(config, items):\n"
        "    if config.option.markexpr == 'core_model':\n"
        "        [item.add_marker('cuda') for item in items]\n"
    )
    assert "lane 'cuda' selects 1 of 6 tests" in lanes("-m", "core_model", "-m", "cuda").stdout


def test_parameters_from_a_set_have_one_name_in_all_lanes(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_model.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('v', [next(iter({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}))])\n"
        "def test_it(v): ...\n"
    )
    assert lanes("-m", "not slow", "-m", "not cuda").exit_code == 0


@pytest.mark.parametrize(
    ("conftest", "addopts"),
    [
        ("collect_ignore = ['test_hidden.py']\n", ""),
        ("collect_ignore_glob = ['*_hidden.py']\n", ""),
        ("def pytest_ignore_collect(collection_path):\n    return 'hidden' in collection_path.name or None\n", ""),
        ("", "addopts = --ignore tests/test_hidden.py\n"),
        ("", "addopts = --ignore-glob=*hidden*\n"),
    ],
)
def test_file_that_is_never_collected_is_told(lanes: Lanes, tmp_path: Path, conftest: str, addopts: str) -> None:
    (tmp_path / "tests" / "test_hidden.py").write_text("import no_such_module\n\ndef test_it(): ...\n")
    (tmp_path / "tests" / "conftest.py").write_text(conftest)
    (tmp_path / "pytest.ini").write_text(INI + addopts)
    ended = lanes(*EVERY)
    assert ended.exit_code == 1
    assert "1 test file that no lane collects" in ended.stdout
    assert "tests/test_hidden.py  left out by --ignore, norecursedirs or a conftest" in ended.stdout
    assert "Every test" not in ended.stdout


@pytest.mark.parametrize("addopts", ["addopts = --ignore=tests/old\n", "norecursedirs = old\n"])
def test_files_in_a_folder_that_is_never_collected_are_told(lanes: Lanes, tmp_path: Path, addopts: str) -> None:
    (tmp_path / "tests" / "old" / "deep").mkdir(parents=True)
    (tmp_path / "tests" / "old" / "deep" / "test_old.py").write_text("def test_it(): ...\n")
    (tmp_path / "tests" / "old" / "helper.py").write_text("")
    (tmp_path / "pytest.ini").write_text(INI + addopts)
    assert "1 test file that no lane collects" in (told := lanes(*EVERY).stdout)
    assert "tests/old/deep/test_old.py  left out" in told


@pytest.mark.parametrize("folder", ["build", ".cache", "node_modules", "environment"])
def test_folders_that_pytest_never_enters_are_not_missed(lanes: Lanes, tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "test_copy.py").write_text("def test_it(): ...\n")
    (tmp_path / "environment").mkdir(exist_ok=True)
    (tmp_path / "environment" / "pyvenv.cfg").write_text("")
    assert lanes(*EVERY).exit_code == 0


def test_module_that_skips_itself_is_told(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_gpu.py").write_text(
        "import pytest\npytest.skip('needs CUDA', allow_module_level=True)\n"
    )
    ended = lanes(*EVERY)
    assert ended.exit_code == 1
    assert "tests/test_gpu.py  skips itself here: needs CUDA" in ended.stdout


def test_options_that_write_files_or_start_workers_do_neither(
    lanes: Lanes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # this test may run in a worker itself
    (tmp_path / "pytest.ini").write_text(
        INI + "addopts = -p xdist -n 2 --junitxml=junit.xml --log-file=log.txt --basetemp=kept\n"
    )
    (tmp_path / "kept").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text(
        "import os, pathlib\npathlib.Path('workers.txt').open('a').write(os.environ.get('PYTEST_XDIST_WORKER', ''))\n"
    )
    assert lanes(*EVERY).exit_code == 0
    assert (tmp_path / "workers.txt").read_text() == ""
    left = {entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")}
    assert left == {"pytest.ini", "tests", "kept", "workers.txt"}


def test_what_failed_last_on_this_machine_selects_nothing(lanes: Lanes, tmp_path: Path) -> None:
    failed = tmp_path / ".pytest_cache" / "v" / "cache"
    failed.mkdir(parents=True)
    (failed / "lastfailed").write_text('{"tests/test_model.py::test_parity": true}')
    (tmp_path / "pytest.ini").write_text(INI + "addopts = --lf\n")
    assert lanes(*EVERY).exit_code == 0
