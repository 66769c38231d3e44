"""Every program of the corpus is told rightly: compiles, causes, breaks, limit, eager calls, targets, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import compilescope

from ..soundness import assert_sound
from .expectation import Program, causes, compiles, programs_in
from .programs import ambient, attributes, breaks, containers, identity, not_compiled, shapes, tensors, values

if TYPE_CHECKING:
    from ..confusion import Confusion

PROGRAMS = [
    program
    for module in (shapes, tensors, ambient, attributes, values, containers, identity, breaks, not_compiled)
    for program in programs_in(module)
]


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_recording_tells_what_the_program_did(program: Program, confusion: Confusion) -> None:
    expected = program.expected
    with compilescope.observe(targets=list(expected.targets), count_runs=True) as scope:
        returned = program.run()
    recording = scope.recording

    assert_sound(recording)
    given = causes(recording)
    wanted = program.expected_causes()
    confusion.add(
        [kind for _, kind, _, _ in wanted], [kind for _, kind, _, _ in given if not expected.open or given == wanted]
    )

    made = compiles(recording)
    if expected.open:
        made = {name: made[name] for name in program.expected_compiles()}
    assert made == program.expected_compiles()
    assert given == wanted
    if not expected.open:
        assert [(b.line, b.kind, b.events) for b in recording.graph_breaks] == program.expected_breaks()
        assert {f.kind: f.calls for f in recording.fallbacks} == dict(expected.fallbacks)
    assert any(c.outcome == "limit" for c in recording.compilations) == expected.limit
    assert {t.selector: t.status for t in recording.targets} == dict(expected.targets)
    errors = [c.error for c in recording.compilations if c.outcome == "failed" and c.error is not None]
    assert [e.kind for e in errors if e.kind != "unsupported"] == [e.kind for e in expected.errors]
    for error, want in zip(errors, expected.errors, strict=False):
        assert error.source == want.source
        if want.mark is not None:
            assert error.where is not None
            assert error.where.line == program.line(want.mark)
    if expected.matches_eager is not None:
        assert returned == expected.matches_eager
    assert all((c.guards or 0) >= expected.guards_at_least for c in recording.compiled)


def test_corpus_holds_every_program_once() -> None:
    names = [program.name for program in PROGRAMS]
    assert len(names) == len(set(names)) >= 43
