"""Of programs made at random, the changes reported are exactly those that were made.

A program is a world of parts (tensors, numbers, dicts, callables, modules, torch's own state...) and a body that reads
them. It is compiled and called twice, and before the second call one part changes, or two, or none. Every part draws
from numbers and names of its own, so nothing of one part is equal to anything of another by chance.

What a report has to say is known without the tool and without torch's guards:

* *what changed* is what the generator wrote into the program's text. Nothing else differs between the two calls: a
  call between them, with nothing changed, is served by the first entry;
* *which changes torch has to do with* is found by counting. A backend of our own counts graphs; a change that makes
  torch compile again when it is the only one, from a fresh compile, fails a guard of the first entry, which is the
  only one there is. Made together with another, it fails that guard still, since the parts have nothing in common:
  so both are to be reported. A change that by itself makes torch compile nothing fails no guard, and is not to be.

A hundred programs run in CI, the same each time. By hand::

    pytest tests/property --programs 1000
    pytest tests/property --programs 1000 --programs-seed 7
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from .judging import judge
from .programs import Program, programs
from .running import run

if TYPE_CHECKING:
    from pathlib import Path

    from .judging import Fault
    from .running import Outcome


@pytest.mark.usefixtures("fresh_dynamo")
def test_changes_reported_are_those_that_were_made(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(1)
    # pytest listens to torch's trace too: that costs time, and thousands of lines behind a failure.
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])

    @seed(pytestconfig.getoption("--programs-seed", 0))
    @settings(
        max_examples=pytestconfig.getoption("--programs", 100),
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(programs())
    def holds(program: Program) -> None:
        outcome = run(program, tmp_path)
        faults = judge(program, outcome)
        if faults:
            pytest.fail(_told(program, outcome, faults), pytrace=False)

    holds()


def _told(program: Program, outcome: Outcome, faults: list[Fault]) -> str:
    """Write a failure so that a reader can run it and see."""
    faulty = "\n".join(f"  {fault.sort}: {fault.text}" for fault in faults)
    return f"\n{program}\n# {outcome.told()}\nwrong:\n{faulty}\n"
