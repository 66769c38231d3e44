"""The judge of the property test: it sees what is missing, what is told twice, and what was never made."""

from __future__ import annotations

from msgspec.structs import replace

from compilescope.record import Compilation, EntryMiss, Failure, Meta, Recompile, Recording

from .judging import judge, matches
from .parts import Change, Part, texts
from .programs import Program
from .running import Outcome

COUNT = Part(
    name="v0",
    sort="int",
    told="v0: 5 -> 7",
    change=Change(kinds=frozenset({"python_int"}), sources=frozenset({"v0"}), expected=texts(5), actual=texts(7)),
)
KEY = Part(
    name="v1",
    sort="dict keys",
    told="v1 gets 'text'",
    change=Change(kinds=frozenset({"dict_keys"}), sources=frozenset({"v1"}), names=("'text'",), came=True),
)
ROWS = Part(
    name="v2",
    sort="size",
    told="v2 has 7 rows",
    change=Change(
        kinds=frozenset({"size"}),
        sources=frozenset({"v2a.size()[0]", "v2b.size()[1]"}),
        expected=texts(5),
        actual=texts(7),
        shape=True,
    ),
)
OF_COUNT = Failure(source="v0", guard="v0 == 5", expected="5", actual="7", guard_type="EQUALS_MATCH", kind="python_int")
OF_KEY = Failure(
    source="v1",
    guard="v1 has no key text",
    expected="absent",
    actual="present",
    guard_type="DICT_CONTAINS",
    kind="dict_keys",
)
OF_ROWS = Failure(
    source="v2a.size()[0]",
    guard="v2a.size()[0] == 5",
    expected="5",
    actual="7",
    guard_type="TENSOR_MATCH",
    kind="size",
    also=("v2b.size()[1]",),
)


def faults(
    made: list[Part],
    causes: list[Failure],
    *,
    alone: list[Part] | None = None,
    recompiled: bool = True,
    shape_driven: bool = False,
) -> list[str]:
    """Return the sorts of the faults that the judge finds."""
    program = Program((COUNT, KEY, ROWS), frozenset(part.name for part in made), None, "function", kept=False)
    recompile = Recompile(
        entries=(EntryMiss(id="0/0", failing=tuple(causes)),), causes=tuple(causes), shape_driven=shape_driven
    )
    compilation = Compilation(id="0/1", code="c", outcome="compiled", seconds=0.0, recompile=recompile)
    meta = Meta(compilescope="0", torch="0", python="0", platform="", device="cpu")
    recording = Recording(meta=meta, compilations=(compilation,) if causes else ())
    names = frozenset(part.name for part in (made if alone is None else alone))
    return [fault.sort for fault in judge(program, Outcome(recording, recompiled, names, ""))]


def test_exactly_what_was_made_is_right() -> None:
    assert faults([COUNT], [OF_COUNT]) == []
    assert faults([COUNT, KEY], [OF_KEY, OF_COUNT]) == []
    assert faults([ROWS], [OF_ROWS], shape_driven=True) == []


def test_a_change_that_is_not_reported_is_missing() -> None:
    assert faults([COUNT, KEY], [OF_COUNT]) == ["missing"]


def test_a_change_that_was_not_made_is_foreign() -> None:
    assert faults([COUNT], [OF_COUNT, OF_KEY]) == ["foreign"]


def test_a_change_that_torch_does_not_guard_is_foreign_though_it_was_made() -> None:
    assert faults([COUNT, KEY], [OF_COUNT, OF_KEY], alone=[COUNT]) == ["foreign"]


def test_a_change_reported_at_each_of_its_places_is_reported_twice() -> None:
    second = replace(OF_ROWS, source="v2b.size()[1]", also=())
    assert faults([ROWS], [OF_ROWS, second], shape_driven=True) == ["twice"]


def test_a_place_that_did_not_change_is_not_among_the_others() -> None:
    wrong = replace(OF_ROWS, also=("v3.size()[0]",))
    assert faults([ROWS], [wrong], shape_driven=True) == ["foreign", "missing"]


def test_shape_driven_is_held_against_what_was_made() -> None:
    assert faults([ROWS], [OF_ROWS], shape_driven=False) == ["shape_driven"]
    assert faults([ROWS, COUNT], [OF_ROWS, OF_COUNT], shape_driven=True) == ["shape_driven"]


def test_a_recompile_that_the_tool_did_not_see_is_a_fault() -> None:
    assert faults([COUNT], []) == ["recompile"]


def test_a_recompile_that_torch_did_not_make_is_a_fault() -> None:
    assert faults([COUNT], [OF_COUNT], alone=[], recompiled=False) == ["recompile"]


def test_values_and_places_are_compared_as_written() -> None:
    assert matches(COUNT.change, OF_COUNT)
    assert not matches(COUNT.change, replace(OF_COUNT, actual="8"))
    assert not matches(COUNT.change, replace(OF_COUNT, expected="7", actual="5"))
    assert not matches(COUNT.change, replace(OF_COUNT, source="v0.size()[0]"))
    assert not matches(COUNT.change, replace(OF_COUNT, kind="python_float"))


def test_a_key_is_named_and_came_where_it_came() -> None:
    assert matches(KEY.change, replace(OF_KEY, expected="no key 'text'", actual="a key 'text'", guard=""))
    assert not matches(KEY.change, replace(OF_KEY, guard="v1 has no key image"))
    assert not matches(KEY.change, replace(OF_KEY, guard="v1 has no key texture"))
    assert not matches(KEY.change, replace(OF_KEY, expected="present", actual="absent"))


def test_the_generated_module_is_not_part_of_a_name() -> None:
    cls = Change(kinds=frozenset({"type"}), sources=frozenset({"v0"}), expected=texts("Old"), actual=texts("New"))
    told = replace(OF_COUNT, kind="type", expected="generated_program.Old", actual="class generated_program.New")
    assert matches(cls, told)
