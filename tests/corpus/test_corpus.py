"""Every program of the corpus is reported rightly: compiles, causes, refusals, breaks, eager calls, targets, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import compilescope

from ..soundness import assert_sound
from .gathered import PROGRAMS
from .programs.training import scheduler_steps_inside_the_compiled_function
from .told import compiles, fallbacks, read

if TYPE_CHECKING:
    from compilescope.record import Recording

    from ..confusion import Confusion
    from .expectation import Program


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_recording_tells_what_the_program_did(program: Program, confusion: Confusion) -> None:
    expected = program.expected
    with compilescope.observe(targets=list(expected.targets), count_runs=True) as scope:
        returned = program.run()
    recording = scope.recording

    told = read(program, recording, recording.recompiles, program.one_by_one(expected.recompiles))
    confusion.add(*told.kinds)
    assert_sound(recording)
    made = compiles(recording)
    if expected.open:
        made = {name: made.get(name, 0) for name in program.compiles()}
    assert made == program.compiles()
    assert told.given == told.wanted
    assert_refusals(program, recording)
    breaks = [(b.line, b.kind, b.events) for b in recording.graph_breaks]
    assert [one for one in breaks if not expected.open or one in program.breaks()] == program.breaks()
    ran_eager = fallbacks(recording)
    anyhow = {kind for kind, calls in expected.fallbacks.items() if calls is None}
    assert {kind: None if kind in anyhow else calls for kind, calls in ran_eager.items()} == dict(expected.fallbacks)
    assert {t.selector: t.status for t in recording.targets} == dict(expected.targets)
    assert_errors(program, recording)
    if expected.matches_eager is not None:
        assert returned == expected.matches_eager
    assert all((c.guards or 0) >= expected.guards_at_least for c in recording.compiled)


def assert_refusals(program: Program, recording: Recording) -> None:
    """Assert that what a limit or a stance refused is explained like a recompile."""
    for outcome, kind, wanted in (
        ("limit", "recompile_limit", program.expected.at_limit),
        ("refused", "recompile_forbidden", program.expected.refused),
    ):
        if wanted is None:
            continue
        found = [c for c in recording.compilations if c.outcome == outcome]
        told = read(program, recording, found, program.one_by_one(wanted))
        assert told.given == told.wanted
        assert {c.error.kind if c.error is not None else None for c in found} <= {kind}


def assert_errors(program: Program, recording: Recording) -> None:
    """Assert of which kind each failure is, what it speaks of, and whether the caller saw it."""
    found = [c.error for c in recording.compilations if c.outcome == "failed" and c.error is not None]
    errors = [error for error in found if error.kind != "unsupported"]
    assert [error.kind for error in errors] == [want.kind for want in program.expected.errors]
    for error, want in zip(errors, program.expected.errors, strict=True):
        assert error.source == want.source
        if want.mark is not None:
            assert error.where is not None
            assert error.where.line == program.line(want.mark)
    assert sum(c.raised for c in recording.compilations) == program.expected.raised


def test_corpus_holds_every_program_once() -> None:
    names = [program.name for program in PROGRAMS]
    assert len(names) == len(set(names)) >= 104


@pytest.mark.usefixtures("fresh_dynamo")
def test_two_resume_functions_of_one_line_are_told_apart() -> None:
    with compilescope.observe() as scope:
        scheduler_steps_inside_the_compiled_function()
    codes = {c.code for c in scope.recording.compiled if "torch_dynamo_resume_in_advance" in c.code}
    assert len(codes) == 2
