"""A cache that is nearly full is an alarm, and so are modules that share one; a cache with room is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compilescope.analysis.cache_use import cache_uses
from compilescope.analysis.summary import alarms
from compilescope.record import CodeObject, Compilation, CompileError, EntryMiss, Meta, Recompile, Recording

BLOCK = CodeObject(id="a.py:wrapper", qualname="wrapper", file="a.py", line=3)


def filled(entries: int, *, owners: tuple[str, ...] = (), last: str = "compiled") -> Recording:
    """A code object with so many entries; ``last`` is the outcome of one more attempt, if not compiled."""
    compiled = [
        Compilation(
            id=f"0/{index}",
            code=BLOCK.id,
            outcome="compiled",
            seconds=0.1,
            limit=8,
            owner=owners[index % len(owners)] if owners else None,
            recompile=Recompile(entries=tuple(EntryMiss(id=f"0/{older}", failing=()) for older in range(index)))
            if index
            else None,
        )
        for index in range(entries)
    ]
    if last != "compiled":
        error = CompileError(kind="recompile_limit", type="Unsupported", message="limit")
        compiled.append(replace(compiled[-1], id=f"0/{entries}", outcome=last, error=error))
    meta = Meta(compilescope="1", torch="2.13", python="3.11", platform="Linux", device="cpu", counts_runs=True)
    return Recording(meta=meta, code_objects=(BLOCK,), compilations=tuple(compiled))


def names(recording: Recording) -> list[str]:
    # These recompiles are made by hand and have no causes.
    return [alarm.name for alarm in alarms(recording) if alarm.name != "unexplained"]


@pytest.mark.parametrize(("entries", "alarmed"), [(1, False), (6, False), (7, True), (8, True)])
def test_alarm_sounds_when_at_most_one_more_entry_fits(entries: int, alarmed: bool) -> None:  # noqa: FBT001 (a column)
    assert ("nearly_full" in names(filled(entries))) is alarmed


def test_alarm_says_how_many_are_used_and_what_comes_next() -> None:
    (seven,) = [alarm for alarm in alarms(filled(7)) if alarm.name == "nearly_full"]
    assert seven.text.startswith("wrapper uses 7 of its 8 cache entries: the next new input but one runs eagerly")
    assert not seven.wrong, "there is room for one more"
    (eight,) = [alarm for alarm in alarms(filled(8)) if alarm.name == "nearly_full"]
    assert "the next new input runs eagerly" in eight.text


def test_limit_that_was_hit_is_not_said_to_be_near() -> None:
    assert names(filled(8, last="limit")) == ["recompile_limit"]


def test_modules_that_share_one_code_object_are_named_with_the_cure() -> None:
    (shared,) = [alarm for alarm in alarms(filled(5, owners=("UNet", "ControlNet"))) if alarm.name == "shared_limit"]
    assert shared.text.startswith("UNet, ControlNet share one code object and its limit of 8 entries, 5 of them used")
    assert "isolate_recompiles=True" in shared.text


def test_two_modules_with_room_for_both_are_not_an_alarm() -> None:
    assert names(filled(3, owners=("UNet", "ControlNet"))) == []
    assert names(filled(4, owners=("UNet", "ControlNet"))) == ["shared_limit"]


def test_entries_that_ran_for_nobody_known_share_nothing() -> None:
    recording = filled(5, owners=("UNet", "ControlNet"))
    alone = tuple(
        replace(one, owner=None if one.owner == "ControlNet" else one.owner) for one in recording.compilations
    )
    (use,) = cache_uses(replace(recording, compilations=alone))
    assert (use.owners, use.shared) == (("UNet",), False)


def test_entries_of_another_region_or_before_a_reset_do_not_count() -> None:
    recording = filled(7)
    first = replace(recording.compilations[0], id="0/7")
    again = replace(recording, compilations=(*recording.compilations, first))
    assert [use.used for use in cache_uses(again)] == [1]


def test_nothing_is_said_where_the_limit_is_not_known() -> None:
    recording = filled(8)
    unknown = tuple(replace(one, limit=None) for one in recording.compilations)
    assert cache_uses(replace(recording, compilations=unknown)) == ()


def test_refused_calls_are_loud() -> None:
    recording = filled(1)
    error = CompileError(kind="recompile_forbidden", type="RuntimeError", message="Detected recompile")
    refused = replace(recording.compilations[0], id="0/refused", outcome="refused", error=error, raised=True)
    (alarm,) = alarms(replace(recording, compilations=(*recording.compilations, refused)))
    assert alarm.wrong
    assert alarm.text == "1 call of wrapper needed a new graph and raised instead. First: Detected recompile"
