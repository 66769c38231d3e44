"""A recompile that is reported in any other way than the expectation says does not pass."""

from __future__ import annotations

import dataclasses
from typing import Final

import pytest

from compilescope.record import CodeObject, Compilation, Failure, Location, Meta, Recompile, Recording

from .expectation import Cause, Program, programs_in
from .programs import identity
from .told import read

PROGRAM: Final[Program] = next(
    one for one in programs_in(identity) if one.name == "closures_of_one_factory_share_their_code"
)
WANTED: Final[Cause] = PROGRAM.one_by_one(PROGRAM.expected.recompiles)[0]
ALONE: Final[Cause] = dataclasses.replace(WANTED, beside=())


def failure(
    kind: str, source: str, actual: str, *, line: str = "factor", places: int = 1, also: tuple[str, ...] = ()
) -> Failure:
    return Failure(
        kind=kind,
        source=source,
        guard=f"{source} is checked",
        guard_type="EQUALS_MATCH",
        expected={"closure": "4"}.get(kind, "2"),
        actual=actual,
        where=Location(file="identity.py", line=PROGRAM.line(line)),
        places=places,
        also=also,
    )


FACTOR: Final = failure("closure", "factor", "6")
SIZE: Final = failure("size", "signal.size()[0]", "7")


def recording(*causes: Failure, shape_driven: bool = False) -> Recording:
    recompile = Recompile(entries=(), causes=causes, shape_driven=shape_driven)
    return Recording(
        meta=Meta(compilescope="1", torch="2", python="3", platform="linux", device="cpu"),
        code_objects=(CodeObject(id="scale", qualname=WANTED.code, file="identity.py", line=1),),
        compilations=(Compilation(id="0/1", code="scale", outcome="compiled", seconds=0.1, recompile=recompile),),
    )


def agrees(given: Recording, *wanted: Cause) -> bool:
    reading = read(PROGRAM, given, given.recompiles, list(wanted))
    return reading.given == reading.wanted


@pytest.mark.parametrize("causes", [(FACTOR, SIZE), (SIZE, FACTOR)], ids=["as written", "the other way round"])
def test_all_causes_in_any_order_agree(causes: tuple[Failure, ...]) -> None:
    assert agrees(recording(*causes), WANTED)


@pytest.mark.parametrize(
    "given",
    [
        recording(),
        recording(FACTOR),
        recording(FACTOR, SIZE, failure("stride", "signal.stride()[0]", "3")),
        recording(FACTOR, SIZE, SIZE),
        recording(FACTOR, failure("size", "signal.size()[0]", "8")),
        recording(FACTOR, failure("size", "signal.size()[1]", "7")),
        recording(FACTOR, failure("zero_one", "signal.size()[0]", "7")),
        recording(FACTOR, SIZE, shape_driven=True),
    ],
    ids=["none", "one missing", "one too many", "one twice", "value", "source", "kind", "shape-driven"],
)
def test_another_report_does_not_agree(given: Recording) -> None:
    assert not agrees(given, WANTED)


def test_a_recompile_more_or_less_does_not_agree() -> None:
    assert not agrees(recording(FACTOR, SIZE), WANTED, WANTED)
    assert not agrees(recording(FACTOR, SIZE))


def test_what_an_expectation_leaves_open_agrees_and_what_it_names_must_stand_there() -> None:
    left_open = dataclasses.replace(ALONE, source=None, expected=None, actual=None, shape_driven=None)
    assert agrees(recording(FACTOR), left_open)
    assert agrees(recording(FACTOR), dataclasses.replace(left_open, names=("4", "6")))
    assert not agrees(recording(FACTOR), dataclasses.replace(left_open, names=("5",)))
    assert not agrees(recording(FACTOR), dataclasses.replace(left_open, line="elsewhere"))


def test_places_and_other_sources_are_held_where_they_are_named() -> None:
    twice = failure("closure", "factor", "6", places=2, also=("other",))
    assert agrees(recording(twice), ALONE)
    assert agrees(recording(twice), dataclasses.replace(ALONE, source="other", also=("factor",), places=2))
    assert not agrees(recording(twice), dataclasses.replace(ALONE, places=1))
    assert not agrees(recording(twice), dataclasses.replace(ALONE, also=("third",)))
