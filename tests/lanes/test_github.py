"""The lanes of a workflow of GitHub Actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .project import Lanes

WORKFLOW = r"""
name: test
on:
  push:
  schedule: [{cron: "0 4 * * *"}]
env:
  PYTEST_FLAGS: --durations=5
defaults:
  run:
    shell: bash
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: pip install ruff pytest && ruff check
  unit:
    runs-on: ${{ matrix.os }}
    env:
      MARKS: ${{ matrix.marks }}
    strategy:
      fail-fast: false
      matrix:
        os: [ubuntu-latest, macos-latest]
        python: ["3.11", "3.12"]
        suite: [fast, slow]
        include:
          - {suite: fast, marks: "core_model and not cuda"}
          - {suite: slow, marks: "slow"}
          - {os: ubuntu-latest, python: "3.13", suite: gpu, marks: "cuda"}
        exclude:
          - {os: macos-latest, suite: slow}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: ${{ matrix.python }}
      - name: Install
        run: |
          python -m pip install -U pip
          pip install -e '.[test]' pytest-cov
      - name: Test
        env:
          TOKEN: ${{ secrets.TOKEN }}
        run: |
          python -m pytest tests \
            -m "${{ matrix.marks }}" \
            -n auto $PYTEST_FLAGS --cov=src --cov-report=xml:coverage-${{ github.sha }}.xml \
            --junitxml="$RUNNER_TEMP/junit.xml"
      - run: coverage run -m pytest -m "$MARKS" --deselect tests/test_model.py::test_parity
      - shell: pwsh
        run: pytest tests
"""
CONFTEST = "import os\n\ndef pytest_report_header():\n    assert 'TOKEN' not in os.environ\n"


def workflow(tmp_path: Path, text: str) -> tuple[str, str]:
    (tmp_path / "test.yml").write_text(text)
    return "--ci", "test.yml"


def test_matrix_with_what_it_includes_and_excludes_makes_the_lanes(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    ended = lanes(*workflow(tmp_path, WORKFLOW))
    assert ended.exit_code == 1
    assert ended.stdout.count("lane `") == 6
    first = "(test.yml: unit, os=ubuntu-latest, python=3.11, suite=fast, marks=core_model and not cuda, and 3 more"
    assert f"{first} like it) selects 2 of 6 tests" in ended.stdout
    assert "suite=slow, marks=slow, and 1 more like it) SELECTS NO TEST" in ended.stdout
    assert "python=3.13, suite=gpu, marks=cuda) selects 1 of 6 tests" in ended.stdout
    assert "3 tests in no lane:\n  tests/test_model.py::test_lengths (3 cases)" in ended.stdout
    assert {entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")} == {
        *("pytest.ini", "tests", "test.yml")
    }


def test_matrix_that_another_job_computes_could_not_be_read(lanes: Lanes, tmp_path: Path) -> None:
    ended = lanes(
        *workflow(
            tmp_path,
            "jobs:\n  unit:\n    strategy:\n      matrix:\n        part: ${{ fromJSON(needs.plan.outputs.parts) }}\n"
            "        python: ['3.11', '3.12']\n"
            "    steps:\n      - run: pytest tests/${{ matrix.part }}\n"
            "      - run: pytest tests -k ${{ matrix.python }}\n",
        )
    )
    assert ended.exit_code == 2
    assert (
        "lane `pytest tests/${{ matrix.part }}` (test.yml: unit, python=3.11, and 1 more like it) COULD NOT BE READ"
        in ended.stdout
    )
    assert "the value of ${{ matrix.part }} is not known" in ended.stdout
    assert "lane `pytest tests -k 3.11`" in ended.stdout


def test_tables_in_a_matrix_are_looked_into(lanes: Lanes, tmp_path: Path) -> None:
    told = lanes(
        *workflow(
            tmp_path,
            "jobs:\n  unit:\n    strategy:\n      matrix:\n"
            "        config: [{name: a, mark: cpu}, {name: b, mark: cuda}]\n"
            "    steps:\n      - run: pytest -m ${{ matrix.config.mark }}\n",
        )
    ).stdout
    assert "lane `pytest -m cpu` (test.yml: unit) selects 1 of 6 tests" in told
    assert "lane `pytest -m cuda` (test.yml: unit) selects 1 of 6 tests" in told


def test_variables_of_workflow_job_and_step_are_put_in(lanes: Lanes, tmp_path: Path) -> None:
    told = lanes(
        *workflow(
            tmp_path,
            "env: {A: cpu, B: slow}\njobs:\n  unit:\n    env: {B: '${{ env.A }}', FLAG: true}\n    steps:\n"
            "      - run: pytest -m $B\n"
            "      - {env: {B: cuda}, run: 'pytest -m ${{ env.B }}'}\n"
            "      - run: pytest -k 'lengths and '\"$FLAG\"\n",
        )
    ).stdout
    assert "lane `pytest -m cpu` (test.yml: unit) selects 1 of 6 tests" in told
    assert "lane `pytest -m cuda` (test.yml: unit) selects 1 of 6 tests" in told
    assert "lane `pytest -k 'lengths and true'`" in told


def test_step_runs_in_its_folder(lanes: Lanes, tmp_path: Path) -> None:
    ended = lanes(
        *workflow(
            tmp_path,
            "defaults: {run: {working-directory: tests}}\njobs:\n  unit:\n    steps:\n      - run: pytest -m cpu\n"
            "      - {working-directory: ., run: pytest -m cuda}\n"
            "      - {working-directory: '${{ inputs.where }}', run: pytest}\n"
            '      - run: cd "$GITHUB_WORKSPACE" && pytest -k parity\n',
        )
    )
    assert ended.exit_code == 2
    assert "lane `pytest -m cpu` in tests (test.yml: unit) selects 1 of 6 tests" in ended.stdout
    assert "lane `pytest -m cuda` (test.yml: unit) selects 1 of 6 tests" in ended.stdout
    assert "lane `pytest -k parity` (test.yml: unit) selects 1 of 6 tests" in ended.stdout
    assert "the folder that `cd ${{ inputs.where }}` leads to is not known" in ended.stdout


def test_workflows_and_actions_of_the_repository_are_followed(lanes: Lanes, tmp_path: Path) -> None:
    action = tmp_path / ".github" / "actions" / "run"
    action.mkdir(parents=True)
    (action / "action.yml").write_text(
        "inputs: {mark: {default: cpu}, extra: {}}\n"
        "runs:\n  using: composite\n  steps:\n    - {shell: bash, run: 'pytest -m ${{ inputs.mark }}'}\n"
    )
    (tmp_path / ".github" / "called.yml").write_text(
        "on: {workflow_call: {inputs: {name: {default: nothing}}}}\n"
        "jobs:\n  inner:\n    steps:\n      - run: pytest -k ${{ inputs.name }}\n"
    )
    told = lanes(
        *workflow(
            tmp_path,
            "jobs:\n  unit:\n    steps:\n      - uses: ./.github/actions/run\n"
            "      - {uses: ./.github/actions/run, with: {mark: cuda}}\n"
            "  other:\n    uses: ./.github/called.yml\n    with: {name: parity}\n",
        )
    ).stdout
    assert "lane `pytest -m cpu` (test.yml: unit) selects 1 of 6 tests" in told
    assert "lane `pytest -m cuda` (test.yml: unit) selects 1 of 6 tests" in told
    assert "lane `pytest -k parity` (test.yml: other: inner) selects 1 of 6 tests" in told


def test_several_files_are_read_together(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "gpu.yml").write_text("steps:\n  - command: pytest -m cuda\n")
    ended = lanes(
        *workflow(tmp_path, "jobs:\n  unit:\n    steps:\n      - run: pytest -m 'not cuda'\n"), "--ci", "gpu.yml"
    )
    assert ended.exit_code == 0
    assert "lane `pytest -m cuda` (gpu.yml) selects 1 of 6 tests" in ended.stdout
