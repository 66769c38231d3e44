"""The lanes of a pipeline of GitLab CI."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .project import Lanes

PIPELINE = r"""
stages: [test]
variables:
  MARK: cpu
  SUITE: {value: lengths, description: what to run}
default:
  before_script:
    - cd tests
.python: &python
  image: python:3.12
.base:
  before_script: []
  variables: {MARK: cuda}
.setup:
  script:
    - export NAME=parity
unit:
  <<: *python
  stage: test
  script:
    - pytest -m "$MARK" test_model.py
gpu:
  extends: .base
  script:
    - [pytest -m $MARK]
named:
  extends: [.base]
  script:
    - !reference [.setup, script]
    - pytest -k $NAME
split:
  before_script: []
  parallel:
    matrix:
      - SUITE: [short, lengths]
        MORE: "0"
  script: pytest -k "$SUITE and $MORE"
after:
  script: [echo]
  after_script: ["pytest -k $SUITE"]
"""


def pipeline(tmp_path: Path, text: str) -> tuple[str, str]:
    (tmp_path / ".gitlab-ci.yml").write_text(text)
    return "--ci", ".gitlab-ci.yml"


def test_jobs_with_templates_references_and_a_matrix_make_the_lanes(lanes: Lanes, tmp_path: Path) -> None:
    ended = lanes(*pipeline(tmp_path, PIPELINE))
    assert ended.exit_code == 1
    told = ended.stdout
    assert "lane `pytest -m cpu test_model.py` in tests (.gitlab-ci.yml: unit) selects 1 of 6 tests" in told
    assert "lane `pytest -m cuda` (.gitlab-ci.yml: gpu) selects 1 of 6 tests" in told
    assert "lane `pytest -k parity` (.gitlab-ci.yml: named) selects 1 of 6 tests" in told
    assert "lane `pytest -k 'short and 0'` (.gitlab-ci.yml: split, SUITE=short, MORE=0) SELECTS NO TEST" in told
    assert (
        "lane `pytest -k 'lengths and 0'` (.gitlab-ci.yml: split, SUITE=lengths, MORE=0) selects 1 of 6 tests" in told
    )
    assert "lane `pytest -k lengths` (.gitlab-ci.yml: after) selects 3 of 6 tests" in told


def test_files_that_a_pipeline_includes_are_part_of_it(lanes: Lanes, tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("unit: {script: pytest -m cpu}\n.gpu: {script: pytest -m cuda}\n")
    told = lanes(*pipeline(tmp_path, "include: [{local: /more.yml}]\ngpu: {extends: .gpu}\n")).stdout
    assert "lane `pytest -m cpu` (.gitlab-ci.yml: unit) selects 1 of 6 tests" in told
    assert "lane `pytest -m cuda` (.gitlab-ci.yml: gpu) selects 1 of 6 tests" in told


def test_job_whose_template_is_elsewhere_could_not_be_read(lanes: Lanes, tmp_path: Path) -> None:
    ended = lanes(
        *pipeline(tmp_path, "include: [{project: a/b, file: c.yml}]\nunit: {script: pytest}\ngpu: {extends: .gpu}\n")
    )
    assert ended.exit_code == 2
    assert "lane gpu (.gitlab-ci.yml) COULD NOT BE READ: it extends .gpu, which the file does not hold" in ended.stdout


def test_shares_of_a_split_job_know_their_number(lanes: Lanes, tmp_path: Path) -> None:
    told = lanes(
        *pipeline(tmp_path, 'unit:\n  parallel: 2\n  script: pytest -k "lengths or part$CI_NODE_INDEX"\n')
    ).stdout
    assert "lane `pytest -k 'lengths or part1'`" in told
    assert "lane `pytest -k 'lengths or part2'`" in told
