"""A lane may be a whole command, with its own paths, marks, names, options, folder and variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .project import INI

if TYPE_CHECKING:
    from pathlib import Path

    from .project import Lanes

SAME = (
    "pytest tests/ -m cpu",
    "py.test tests/ -m cpu",
    ".venv/bin/pytest tests/ -m cpu",
    "python -m pytest tests/ -m cpu",
    "python3.11 -X dev -m pytest tests/ -m cpu",
    "uv run pytest tests/ -m cpu",
    "uv run --with pytest --extra test pytest tests/ -m cpu",
    "uv run python -m pytest tests/ -m cpu",
    "poetry run pytest tests/ -m cpu",
    "coverage run --source src -m pytest tests/ -m cpu",
    "python -m coverage run -m pytest tests/ -m cpu",
    "torchrun --nproc-per-node 2 -m pytest tests/ -m cpu",
    "python -m torch.distributed.run --nproc-per-node=2 -m pytest tests/ -m cpu",
    "timeout --signal=TERM -k 2m 15m pytest tests/ -m cpu",
    "sudo -E timeout 15m python -m pytest tests/ -m cpu",
    "docker run --rm -v $PWD:/work image pytest tests/ -m cpu",
    '"${VENV_PYTHON}" -m pytest tests/ -m cpu',
    "$CONDA_RUN python -m pytest tests/ -m cpu",
    "xvfb-run -a pytest tests/ -m cpu",
    "pytest \\\n  tests/ \\\n  -m cpu",
    "pytest tests/ -m 'cpu'  # not the others",
    'pytest tests/ -m "cpu" 2>&1 | tee log.txt',
    "set -eu; cd . && pytest tests/ -m cpu || true",
    'MARK=cpu; pytest tests/ -m "$MARK"',
    "pytest tests/ -m ${MARK:-cpu}",
    'bash -c "pytest tests/ -m cpu"',
    "timeout 15m bash -exc '\n  pytest tests/ -m \"cpu\"\n'",
    "bash <<'END'\npytest tests/ -m cpu\nEND\n",
    "(cd tests; ls); pytest tests/ -m cpu",
    "if true; then pytest tests/ -m cpu; fi",
    "for i in 1 2 3; do pytest tests/ -m cpu; done",
    "A=$(grep ')' \"x)y\" | wc); pytest tests/ -m $'cpu'",
    'echo "$(echo ")")"; pytest tests/ -m cpu',
    "time { pytest tests/ -m cpu; }",
)
MENTIONED = (
    "pip install -U pytest pytest-cov",
    "python -m pip install pytest",
    "sudo apt-get install -y python3-pytest pytest",
    "uv pip install pytest",
    "uv add --dev pytest",
    "conda install pytest",
    "poetry add pytest",
    "echo running pytest now",
    "which pytest && pytest --version",
    "pytest --collect-only tests/ > all.txt",
    "grep pytest setup.cfg",
    "cat > run.txt <<END\npytest tests/\nEND",
    "# pytest tests/",
    "export TOOL=pytest",
)
HARMLESS = (
    "-n auto",
    "-n4",
    "--numprocesses=2",
    "--dist loadgroup",
    "--junitxml=junit.xml",
    "--junit-xml junit.xml",
    "--cov",
    "--cov=src --cov-report xml:coverage.xml --cov-append",
    "--timeout 60 --timeout-method=thread",
    "--reruns 2 --reruns-delay=1",
    "--html=report.html --self-contained-html",
    "--json-report --json-report-file=$(date).json",
    "--log-file log.txt",
    "--basetemp=$RUNNER_TEMP",
    "--durations=0 --durations-min 1",
    "--cache-clear --debug",
)


def commands(*lanes: str) -> list[str]:
    return [part for lane in lanes for part in ("--lane", lane)]


def test_lanes_may_differ_in_path_marks_names_and_options(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit").mkdir()
    (tmp_path / "tests" / "unit" / "test_unit.py").write_text("def test_fast(): ...\n\ndef test_slow(): ...\n")
    ended = lanes(
        *commands(
            "pytest tests/test_model.py -m 'core_model and not cuda' --deselect tests/test_model.py::test_parity",
            'pytest tests/unit -k "fast and not slow"',
            "pytest tests/test_model.py -k lengths",
        )
    )
    assert ended.exit_code == 1
    assert "lane `pytest tests/unit -k 'fast and not slow'` selects 1 of 8 tests" in ended.stdout
    assert "lane `pytest tests/test_model.py -k lengths` selects 3 of 8 tests" in ended.stdout
    assert "3 tests in no lane:" in ended.stdout
    for missed in ("test_model.py::test_kernel", "test_model.py::test_parity", "unit/test_unit.py::test_slow"):
        assert f"  tests/{missed}  " in ended.stdout


def test_every_way_to_call_pytest_is_read_alike(lanes: Lanes) -> None:
    ended = lanes(*commands(*SAME))
    assert ended.exit_code == 1
    assert ended.stdout.count("lane `") == 1
    assert "lane `pytest tests/ -m cpu` selects 1 of 6 tests" in ended.stdout


def test_command_that_only_names_pytest_is_no_lane(lanes: Lanes) -> None:
    ended = lanes(*commands("\n".join([*MENTIONED, "pytest tests/ -m cpu"])))
    assert ended.stdout.count("lane `") == 1
    assert "lane `pytest tests/ -m cpu` selects 1 of 6 tests" in ended.stdout


def test_options_that_a_collection_does_not_need_are_left_out(lanes: Lanes, tmp_path: Path) -> None:
    ended = lanes(*commands(*(f"pytest -m cpu {options} -- tests/" for options in HARMLESS)))
    assert ended.exit_code == 1
    assert ended.stdout.count("selects 1 of 6 tests") == 1
    assert {entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")} == {"pytest.ini", "tests"}


def test_marks_and_commands_may_stand_side_by_side_in_the_settings(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.compilescope]\nlanes = ['core_model', 'pytest tests -k \"lengths and not 77\"']\n"
    )
    told = lanes().stdout
    assert "lane 'core_model' selects 3 of 6 tests" in told
    assert "1 test in no lane:\n  tests/test_model.py::test_lengths[77]" in told


def test_folder_of_a_lane_is_the_one_it_goes_to(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tools" / "tests").mkdir(parents=True)
    (tmp_path / "tools" / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (tmp_path / "tools" / "tests" / "test_tool.py").write_text("def test_tool(): ...\n")
    ended = lanes(*commands("pytest tests/", "cd tools && pytest", "(cd tools/tests; pytest test_tool.py)"))
    assert ended.exit_code == 0
    assert "lane `pytest` in tools selects 1 of 7 tests" in ended.stdout
    assert "lane `pytest test_tool.py` in tools/tests selects 1 of 7 tests" in ended.stdout


def test_variables_of_a_lane_are_set_for_it_alone(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "conftest.py").write_text(
        "import os\n\n"
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [i for i in items if os.environ.get('SUITE', 'kernel') in i.name]\n"
    )
    ended = lanes(*commands("pytest", "SUITE=shapes pytest", "export SUITE=parity; pytest", "env SUITE=lengths pytest"))
    assert ended.exit_code == 0
    assert ended.stdout.count("selects 1 of 6 tests") == 3
    assert ended.stdout.count("selects 3 of 6 tests") == 1


def test_options_in_a_variable_are_options_of_the_lane(lanes: Lanes, tmp_path: Path) -> None:
    told = lanes(*commands("PYTEST_ADDOPTS='-m cpu --junitxml=junit.xml -n 4 --cov=src' pytest tests")).stdout
    assert "lane `pytest tests` selects 1 of 6 tests" in told
    assert not (tmp_path / "junit.xml").exists()


def test_patterns_of_files_are_those_of_the_folder(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_more.py").write_text("def test_more(): ...\n")
    assert "selects 7 of 7 tests" in lanes(*commands("pytest tests/*.py")).stdout
    assert "selects 1 of 7 tests" in lanes(*commands("cd tests && pytest test_m?re.py")).stdout


def test_tests_of_a_lane_outside_the_usual_folders_are_among_all(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI + "testpaths = tests\n")
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "test_check.py").write_text("def test_fast(): ...\n\ndef test_other(): ...\n")
    both = commands("pytest tests", "pytest checks -k fast")
    assert "1 test in no lane:\n  checks/test_check.py::test_other" in lanes(*both).stdout
    ended = lanes(*both, "--", "tests/")
    assert ended.exit_code == 0
    assert "lane `pytest checks -k fast` selects 0 of 6 tests" in ended.stdout


def test_file_that_one_lane_ignores_and_another_collects_is_not_missed(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI + "addopts = --ignore=tests/test_gpu.py\n")
    (tmp_path / "tests" / "test_gpu.py").write_text("def test_gpu(): ...\n")
    ended = lanes(*commands("pytest tests", "pytest tests/test_gpu.py"))
    assert ended.exit_code == 0
    assert "lane `pytest tests/test_gpu.py` selects 1 of 7 tests" in ended.stdout


@pytest.mark.parametrize(
    ("lane", "sentence"),
    [
        ("pytest $ARGS tests", "The lane `pytest $ARGS tests` cannot be read: the value of $ARGS is not known."),
        ("pytest $(cat list.txt)", "the value of $(cat list.txt) is not known."),
        ("for m in cpu cuda; do pytest -m $m; done", "the value of $m is not known."),
        ("pytest tests/test_{a,b}.py", "the value of {a,b} is not known."),
        ("cd $WHERE && pytest", "the folder that `cd $WHERE` leads to is not known."),
        ("cd nowhere && pytest", "which does not exist here."),
        ("pytest -k $'a\\nb'", "the value of a\\nb is not known."),
        ('pytest tests; run() { pytest "$@"; }', "the value of $@ is not known."),
        ("ls tests | xargs pytest", "it calls pytest in a way that compilescope does not know."),
        ("python -c 'import pytest; pytest.main()'", "it calls pytest in a way that compilescope does not know."),
        ("pytest -m 'cpu", "a ' is not closed."),
        ("pytest --version", "The lane `pytest --version` runs no test."),
        ("pytest --no-such-option", "in the lane `pytest --no-such-option`: pytest could not collect"),
        ("pytest nowhere/", "file or directory not found: nowhere/"),
    ],
)
def test_command_that_cannot_be_read_is_told(lanes: Lanes, lane: str, sentence: str) -> None:
    ended = lanes("--lane", lane)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert sentence in ended.stderr
