"""The lanes of a pipeline of Buildkite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .project import Lanes

PIPELINE = r"""
env:
  VLLM_WORKER_MULTIPROC_METHOD: spawn

steps:
  - group: ":card_index_dividers: Simple Test"
    depends_on: upload-ready-pipeline
    steps:
      - label: "Simple · Diffusion Test"
        timeout_in_minutes: 30
        commands:
          - export HF_HUB_OFFLINE=1
          - "pytest -sv tests/diffusion -m 'core_model and cpu'
            --num-shards=$$BUILDKITE_PARALLEL_JOB_COUNT --shard-id=$$BUILDKITE_PARALLEL_JOB"
        parallelism: 2
      - label: "Simple · Other Test"
        commands:
          - "pytest -sv tests/ -m 'core_model and cpu' --ignore=tests/diffusion --ignore=tests/e2e"
  - label: "Diffusion · Attention"
    commands:
      - mkdir -p "$$ARTIFACT_DIR"
      - >-
        timeout --signal=TERM --kill-after=2m 55m
        pytest -s -v -n 1
        tests/diffusion/
        -m 'core_model and cuda and not
        (slow)'
        -k 'not numerics'
        --run-level "core_model"
        --junitxml="$$ARTIFACT_DIR/pytest.xml"
        2>&1 | tee "$$ARTIFACT_DIR/pytest.log"
  - wait
  - label: "Entrypoints Test"
    commands:
      - |
        timeout 30m bash -c "
          set -eu
          export VLLM_WORKER_MULTIPROC_METHOD=spawn
          pytest -sv tests/e2e/test_serve.py::test_one -m 'core_model and cuda' --run-level 'core_model'
          pytest -sv tests/e2e/ -m 'core_model and cuda' --run-level 'core_model' \
            --deselect tests/e2e/test_serve.py::test_one --deselect tests/e2e/test_serve.py::test_two
        "
    plugins:
      - docker#v5.2.0:
          image: ci/image
  - label: "Old Test"
    skip: "flaky"
    command: pytest tests/old
"""
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--run-level", default="all")
    parser.addoption("--num-shards", type=int, default=1)
    parser.addoption("--shard-id", type=int, default=0)

def pytest_collection_modifyitems(config, items):
    count, mine = config.getoption("--num-shards"), config.getoption("--shard-id")
    items[:] = [item for number, item in enumerate(sorted(items, key=lambda i: i.name)) if number % count == mine]
"""
DIFFUSION = """
import pytest
pytestmark = pytest.mark.core_model

@pytest.mark.cpu
def test_shapes(): ...

@pytest.mark.cpu
def test_ropes(): ...

@pytest.mark.cuda
def test_kernel(): ...

@pytest.mark.cuda
def test_numerics(): ...

def test_parity(): ...
"""
SERVE = """
import pytest
pytestmark = [pytest.mark.core_model, pytest.mark.cuda]

def test_one(): ...

def test_two(): ...

def test_three(): ...
"""
MISSED = """
3 tests in no lane:
  tests/diffusion/test_model.py::test_numerics  marked core_model, cuda
  tests/diffusion/test_model.py::test_parity  marked core_model
  tests/e2e/test_serve.py::test_two  marked core_model, cuda
"""


@pytest.fixture
def omni(lanes: Lanes, tmp_path: Path) -> Lanes:
    """Run the audit in a project whose pipeline is like that of vLLM-Omni."""
    tests = tmp_path / "tests"
    (tests / "diffusion").mkdir()
    (tests / "e2e").mkdir()
    (tests / "test_model.py").rename(tests / "diffusion" / "test_model.py").write_text(DIFFUSION)
    (tests / "e2e" / "test_serve.py").write_text(SERVE)
    (tests / "test_utils.py").write_text(
        "import pytest\n\n@pytest.mark.core_model\n@pytest.mark.cpu\ndef test_utils(): ...\n"
    )
    (tests / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    return lanes


def pipeline(tmp_path: Path, text: str) -> tuple[str, str]:
    (tmp_path / "pipeline.yml").write_text(text)
    return "--ci", "pipeline.yml"


def test_tests_that_no_step_selects_are_told(omni: Lanes) -> None:
    ended = omni("--ci", "pipeline.yml")
    assert ended.exit_code == 1
    assert MISSED in ended.stdout
    assert ended.stdout.count("lane `") == 6
    assert "BUILDKITE_PARALLEL_JOB=1, BUILDKITE_PARALLEL_JOB_COUNT=2) selects 1 of 9 tests" in ended.stdout
    assert "(pipeline.yml: Simple · Other Test) selects 1 of 9 tests" in ended.stdout
    assert "(pipeline.yml: Diffusion · Attention) selects 1 of 9 tests" in ended.stdout
    assert "Old Test" not in ended.stdout


def test_lane_by_hand_may_join_those_of_a_pipeline(omni: Lanes) -> None:
    ended = omni("--ci", "pipeline.yml", "--lane", "pytest tests -k 'numerics or parity or two'")
    assert ended.exit_code == 0
    assert "Every test is in some lane." in ended.stdout


@pytest.mark.parametrize(
    "matrix",
    [
        "[cpu, cuda]",
        "{setup: [cpu, cuda]}",
        "{setup: {mark: [cpu, slow]}, adjustments: [{with: {mark: cuda}}, {with: {mark: slow}, skip: true}]}",
    ],
)
def test_matrix_makes_a_lane_of_each_value(lanes: Lanes, tmp_path: Path, matrix: str) -> None:
    name = "matrix.mark" if "mark" in matrix else "matrix"
    step = f"- label: unit {{{{{name}}}}}\n  command: pytest -m {{{{ {name} }}}}\n  matrix: {matrix}\n"
    told = lanes(*pipeline(tmp_path, step)).stdout
    assert "lane `pytest -m cpu` (pipeline.yml: unit cpu" in told
    assert "lane `pytest -m cuda` (pipeline.yml: unit cuda" in told
    assert told.count("selects 1 of 6 tests") == 2


def test_variables_of_pipeline_and_step_are_put_in(lanes: Lanes, tmp_path: Path) -> None:
    told = lanes(
        *pipeline(
            tmp_path,
            "env:\n  MARK: cpu\n  NAME: '${MARK}'\nsteps:\n"
            "  - command: pytest -m $$NAME\n  - command: pytest -m ${NAME}\n    env: {MARK: cuda}\n",
        )
    ).stdout
    assert "lane `pytest -m cpu` (pipeline.yml) selects 1 of 6 tests" in told
    assert "lane `pytest -m cuda` (pipeline.yml) selects 1 of 6 tests" in told


def test_lane_of_a_value_that_the_pipeline_does_not_hold_could_not_be_read(lanes: Lanes, tmp_path: Path) -> None:
    ended = lanes(
        *pipeline(tmp_path, "steps:\n  - {label: a, command: pytest tests}\n  - {label: b, command: 'pytest $WHAT'}\n")
    )
    assert ended.exit_code == 2
    assert "lane `pytest $WHAT` (pipeline.yml: b) COULD NOT BE READ: the value of $WHAT is not known" in ended.stdout
    assert "Every test is in some lane." in ended.stdout


def test_lane_that_only_a_script_knows_could_not_be_read(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text('pytest tests -m "$1"\n')
    ended = lanes(
        *pipeline(
            tmp_path, "steps:\n  - command: bash run.sh cpu\n  - command: tox -e py\n  - command: pytest -m cuda\n"
        )
    )
    assert ended.exit_code == 2
    assert "lane `bash run.sh cpu` (pipeline.yml) COULD NOT BE READ: compilescope does not look into" in ended.stdout
    assert "lane `tox -e py` (pipeline.yml) COULD NOT BE READ" in ended.stdout
    assert "5 tests in no lane that could be read:" in ended.stdout


def test_lane_that_pytest_cannot_collect_here_could_not_be_read(lanes: Lanes, tmp_path: Path) -> None:
    ended = lanes(
        *pipeline(tmp_path, "steps:\n  - command: pytest\n  - command: pytest --shard 1\n  - command: pytest gone/\n")
    )
    assert ended.exit_code == 2
    assert "lane `pytest` (pipeline.yml) selects 6 of 6 tests" in ended.stdout
    assert "lane `pytest --shard 1` (pipeline.yml) COULD NOT BE READ: pytest could not collect" in ended.stdout
    assert "file or directory not found: gone/" in ended.stdout


def test_step_runs_in_its_working_folder(lanes: Lanes, tmp_path: Path) -> None:
    steps = (
        "steps:\n  - {working_dir: tests, command: pytest test_model.py}\n  - {working_dir: /gone, command: pytest}\n"
    )
    told = lanes(*pipeline(tmp_path, steps)).stdout
    assert "lane `pytest test_model.py` in tests (pipeline.yml) selects 6 of 6 tests" in told
    assert "COULD NOT BE READ: it runs in /gone, which does not exist here" in told


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("steps:\n  - command: [pytest", "Error: pipeline.yml is not valid YAML: "),
        ("steps:\n  - command: echo pytest\n", "Error: No command in pipeline.yml runs tests by pytest."),
        ("steps:\n  - command: pytest --version\n", "Error: No command in pipeline.yml runs tests by pytest."),
        (
            "steps:\n  - {command: {a: [1]}, skip: [x]}\n  - {matrix: [[], {}], parallelism: many, env: 3}\n",
            "Error: No command in pipeline.yml runs tests by pytest.",
        ),
        (
            "a: 1\n",
            "Error: pipeline.yml is not a workflow of GitHub Actions, nor a pipeline of GitLab CI or Buildkite.",
        ),
        ("just words\n", "Error: pipeline.yml is not a workflow of GitHub Actions"),
        ("", "Error: pipeline.yml is not a workflow of GitHub Actions"),
    ],
)
def test_file_without_lanes_is_told(lanes: Lanes, tmp_path: Path, text: str, sentence: str) -> None:
    ended = lanes(*pipeline(tmp_path, text))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(sentence)
    assert len(ended.stderr.splitlines()) == 1


def test_file_that_is_not_there_is_told(lanes: Lanes) -> None:
    ended = lanes("--ci", "nowhere.yml")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == "Error: nowhere.yml cannot be read: No such file or directory.\n"
