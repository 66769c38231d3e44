"""Every kind of cause is given to a program that has it, and following the advice removes the recompile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import compilescope
from compilescope.analysis.kinds import KINDS

from ..soundness import assert_sound
from . import attribute_kinds, shape_kinds, tensor_kinds, value_kinds
from .probe import Probe, probes_in

if TYPE_CHECKING:
    from ..confusion import Confusion

PROBES = [p for module in (shape_kinds, tensor_kinds, value_kinds, attribute_kinds) for p in probes_in(module)]


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: f"{probe.kind}-{probe.name}")
def test_recompile_has_the_cause_that_the_program_was_written_for(probe: Probe, confusion: Confusion) -> None:
    with compilescope.observe() as scope:
        probe.run(cured=False)
    recompiles = [c.recompile for c in scope.recording.recompiles if c.recompile is not None]
    confusion.add([probe.kind], [r.causes[0].kind or "unknown" for r in recompiles])
    assert [(r.causes[0].kind, _in_order(r.causes[0].source)) for r in recompiles] == [(probe.kind, probe.source)]
    assert recompiles[0].shape_driven == KINDS[probe.kind].shape_driven
    assert_sound(scope.recording)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("probe", [p for p in PROBES if not p.expected], ids=lambda probe: f"{probe.kind}-{probe.name}")
def test_following_the_advice_removes_the_recompile(probe: Probe) -> None:
    with compilescope.observe() as scope:
        probe.run(cured=True)
    assert scope.recording.compiled
    assert [(c.recompile.causes[0].kind, c.recompile.causes[0].source) for c in scope.recording.recompiles] == []


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("probe", [p for p in PROBES if p.expected], ids=lambda probe: f"{probe.kind}-{probe.name}")
def test_recompile_that_is_expected_comes_of_nothing_else(probe: Probe) -> None:
    with compilescope.observe() as scope:
        probe.run(cured=True)
    assert len(scope.recording.compiled) == 1


def _in_order(source: str) -> str:
    return ", ".join(sorted(source.split(", ")))
