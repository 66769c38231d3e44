"""Recordings on disk: what was written comes back, what cannot be read gives one sentence, and files are whole."""

from __future__ import annotations

import codecs
import json
import stat
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compilescope import storage
from compilescope.errors import RecordingError
from compilescope.record import (
    AxisSummary,
    CodeObject,
    Compilation,
    CompileError,
    EntryMiss,
    Failure,
    Fallback,
    Finding,
    GraphBreak,
    Location,
    Meta,
    Parity,
    Recompile,
    Recording,
    Run,
    Sweep,
    SweepPoint,
    Target,
)

if TYPE_CHECKING:
    from pathlib import Path

META = Meta(compilescope="1.0", torch="2.13.0", python="3.11", platform="Linux x86_64", device="cpu")
EQUAL = Parity(max_abs=0.0, relative_l2=0.0, psnr=None, bitwise=True)
CAUSE = Failure(
    source="x.size()[0]",
    guard="x.size()[0] == 4",
    expected="4",
    actual="6",
    where=Location(file="a.py", line=3, text="return x"),
    guard_type="TENSOR_MATCH",
    part="size",
    kind="size",
    advice="compile with dynamic=True",
)
WHOLE = Recording(
    meta=msgspec.structs.replace(META, config={"recompile_limit": 8}, run=Run(status="exited", exit_code=3)),
    code_objects=(CodeObject(id="a.py:f", qualname="f", file="a.py", line=1),),
    compilations=(
        Compilation(id="0/0", code="a.py:f", outcome="compiled", seconds=0.5, point={"rows": 4}, guards=3),
        Compilation(
            id="0/1",
            code="a.py:f",
            outcome="compiled",
            seconds=0.25,
            recompile=Recompile(
                entries=(EntryMiss(id="0/0", failing=(CAUSE,)),),
                closest="0/0",
                alternatives=("0/0",),
                causes=(CAUSE,),
            ),
        ),
        Compilation(
            id="0/2",
            code="a.py:f",
            outcome="failed",
            seconds=0.0,
            error=CompileError(kind="internal", type="E", message="no, “really” \N{SNOWMAN}"),
        ),
    ),
    graph_breaks=(
        GraphBreak(
            code="a.py:f", file="a.py", line=2, kind="item", registry_id=None, reason="r", events=2, skips_frame=False
        ),
    ),
    fallbacks=(Fallback(code="a.py:f", kind="stance", calls=None, detail="d"),),
    targets=(Target(selector="f", status="compiled", compiles=2),),
    sweeps=(
        Sweep(
            workload="w",
            order="grid",
            axes={"rows": (4, 6)},
            points=(SweepPoint(values={"rows": 4}, status="ok", seconds=0.1, parity=EQUAL),),
            summary={"rows": AxisSummary(free=False, compiles_at=(6,), because=("size",))},
        ),
    ),
    findings=(Finding(rule="R1", code=None, message="m"),),
)  # fmt: skip


def test_recording_comes_back_from_its_json() -> None:
    assert storage.from_json(storage.to_json(WHOLE)) == WHOLE
    assert storage.from_json(storage.to_json(WHOLE, indent=None)) == WHOLE


def test_recording_comes_back_from_a_file(tmp_path: Path) -> None:
    storage.save(WHOLE, tmp_path / "r.json")
    assert storage.load(tmp_path / "r.json") == WHOLE


def test_recording_that_begins_with_a_byte_order_mark_is_read() -> None:
    assert storage.from_json(codecs.BOM_UTF8 + storage.to_json(WHOLE)) == WHOLE


def test_text_that_utf_8_cannot_hold_is_written_as_it_is_spelt() -> None:
    run = Run(status="raised", error="no \udce9")
    changed = {"meta": msgspec.structs.replace(META, argv=("\udce9.py",), config={"\udce9": "\udce9"}, run=run)}
    told = storage.from_json(storage.to_json(msgspec.structs.replace(WHOLE, **changed)))
    assert (told.meta.argv, told.meta.run.error) == (("\\udce9.py",), "no \\udce9")
    assert told.meta.config == {"\\udce9": "\\udce9"}
    assert told.compilations == WHOLE.compilations


def test_what_utf_8_can_hold_stays_the_same_object() -> None:
    assert storage.encodable(WHOLE) is WHOLE


def test_json_is_of_the_contract() -> None:
    plain = json.loads(storage.to_json(WHOLE))
    assert plain["meta"]["format"] == 1
    assert list(plain) == [
        "meta",
        "code_objects",
        "compilations",
        "graph_breaks",
        "fallbacks",
        "targets",
        "sweeps",
        "findings",
        "judgement",
    ]
    assert plain["compilations"][1]["recompile"]["causes"][0]["where"]["line"] == 3
    assert plain["fallbacks"][0]["calls"] is None
    assert storage.to_json(WHOLE).endswith(b"}\n")


@pytest.mark.parametrize("indent", [1, None])
def test_json_cut_short_anywhere_gives_one_sentence(indent: int | None) -> None:
    data = storage.to_json(WHOLE, indent=indent).rstrip()
    for length in range(len(data)):
        with pytest.raises(RecordingError) as caught:
            storage.from_json(data[:length])
        assert "\n" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_recording_or_one_sentence(data: bytes) -> None:
    with pytest.raises(RecordingError):
        storage.from_json(data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(field=st.sampled_from(sorted(json.loads(storage.to_json(WHOLE)))), value=_JSON)
def test_any_field_of_another_shape_gives_a_recording_or_one_sentence(field: str, value: Any) -> None:
    plain = json.loads(storage.to_json(WHOLE))
    plain[field] = value
    try:
        assert isinstance(storage.from_json(json.dumps(plain).encode()), Recording)
    except RecordingError as error:
        assert str(error)  # noqa: PT017 (either end is right)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(position=st.integers(0, len(storage.to_json(WHOLE)) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_gives_a_recording_or_one_sentence(position: int, byte: int) -> None:
    data = bytearray(storage.to_json(WHOLE))
    data[position] = byte
    try:
        assert isinstance(storage.from_json(bytes(data)), Recording)
    except RecordingError as error:
        assert str(error)  # noqa: PT017 (either end is right)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"hello", "not a compilescope recording, or was cut short"),
        (b"[]", "is JSON, but not a compilescope recording"),
        (b'{"a":' * 100_000, "was cut short"),
        (b'{"meta": {"format": 1, "compilescope": "1.0", "x":' + b"[" * 100_000, "was cut short"),
        (b'{"meta": {}}', "is JSON, but not a compilescope recording"),
        (b'{"meta": {"format": 1, "compilescope": "1.0"}}', "does not follow recording format 1"),
        (
            b'{"meta": {"format": 2, "compilescope": "9.1"}, "anything": 1}',
            "has format 2, written by compilescope 9.1; this version reads up to format 1",
        ),
    ],
)
def test_what_is_no_recording_is_refused_in_a_sentence_that_names_it(data: bytes, words: str) -> None:
    with pytest.raises(RecordingError, match=words) as caught:
        storage.from_json(data, name="old.json")
    assert str(caught.value).startswith("old.json ")


def test_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"none\.json cannot be read: No such file"):
        storage.load(tmp_path / "none.json")


def test_place_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be written"):
        storage.save(WHOLE, tmp_path / "no" / "such" / "r.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RecordingError, match="cannot be written"):
        storage.save(WHOLE, tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_file_is_replaced_whole_and_readable_as_any_new_file(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")
    storage.save(WHOLE, path)
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["plain", "r.json"]


# --- merging --------------------------------------------------------------------------------------

_BREAKS = st.builds(
    GraphBreak,
    code=st.sampled_from(["a.py:f", "a.py:g"]),
    file=st.just("a.py"),
    line=st.integers(1, 3),
    kind=st.sampled_from(["item", "print"]),
    registry_id=st.none(),
    reason=st.just("r"),
    events=st.integers(1, 5),
    skips_frame=st.booleans(),
)
_CODES = st.builds(
    CodeObject, id=st.sampled_from(["a.py:f", "a.py:g"]), qualname=st.just("f"), file=st.just("a.py"), line=st.just(1)
)
BEFORE = msgspec.structs.replace(WHOLE.compilations[1], id="0/2")
"""A second recompile that speaks of 0/0, which some of the recordings below do not hold."""
_RECORDINGS = st.builds(
    Recording,
    meta=st.just(META),
    code_objects=st.lists(_CODES, max_size=2).map(tuple),
    compilations=st.lists(st.sampled_from((*WHOLE.compilations, BEFORE)), max_size=4).map(tuple),
    graph_breaks=st.lists(_BREAKS, max_size=4).map(tuple).map(storage.merge_breaks),
    fallbacks=st.lists(st.sampled_from(WHOLE.fallbacks), max_size=2).map(tuple),
)


@given(_RECORDINGS, _RECORDINGS, _RECORDINGS)
def test_merging_may_be_done_in_any_grouping(a: Recording, b: Recording, c: Recording) -> None:
    merge = storage.merge
    assert merge([merge([a, b]), c]) == merge([a, merge([b, c])]) == merge([a, b, c])


@given(st.lists(_RECORDINGS, min_size=1, max_size=3))
def test_merging_loses_no_compilation_and_no_event(parts: list[Recording]) -> None:
    whole = storage.merge(parts)
    assert len(whole.compilations) == sum(len(part.compilations) for part in parts)
    events = [sum(b.events for b in recording.graph_breaks) for recording in (*parts, whole)]
    assert events[-1] == sum(events[:-1])
    assert {code.id for code in whole.code_objects} == {code.id for part in parts for code in part.code_objects}


@given(st.lists(_RECORDINGS, min_size=1, max_size=3))
def test_merged_ids_are_unique(parts: list[Recording]) -> None:
    ids = [one.id for one in storage.merge(parts).compilations]
    assert len(ids) == len(set(ids))


def only(*compilations: Compilation) -> Recording:
    return Recording(meta=META, compilations=compilations)


def test_merged_recordings_keep_their_causes_apart() -> None:
    first, second, _ = WHOLE.compilations
    again = msgspec.structs.replace(first, id="0/0#2")
    whole = storage.merge([only(first, second), only(first, second), only(first, again)])
    assert [one.id for one in whole.compilations] == ["0/0", "0/1", "0/0#2", "0/1#2", "0/0#3", "0/0#4"]
    assert spoken_of(whole.compilations[1]) == {"0/0"}
    assert spoken_of(whole.compilations[3]) == {"0/0#2"}


def test_entry_that_is_older_than_its_recording_is_taken_for_no_entry_of_another() -> None:
    first, second, _ = WHOLE.compilations
    whole = storage.merge([only(second), only(first)])
    assert not spoken_of(whole.compilations[0]) & {one.id for one in whole.compilations}


def test_entry_that_is_recorded_after_the_recompile_that_speaks_of_it_keeps_its_id() -> None:
    first, second, _ = WHOLE.compilations
    assert [one.id for one in storage.merge([only(second, first)]).compilations] == ["0/1", "0/0"]


def spoken_of(one: Compilation) -> set[str | None]:
    """Return the ids of entries that a recompile names."""
    assert one.recompile is not None
    return {one.recompile.closest, *one.recompile.alternatives, *(miss.id for miss in one.recompile.entries)}


def test_merging_one_recording_changes_nothing() -> None:
    assert storage.merge([WHOLE]) == WHOLE


def test_merging_nothing_is_a_mistake_of_the_callers() -> None:
    with pytest.raises(ValueError, match="at least one"):
        storage.merge([])


def test_site_that_skipped_its_frame_once_skips_it() -> None:
    kept, skipped = (msgspec.structs.replace(WHOLE.graph_breaks[0], skips_frame=flag) for flag in (False, True))
    (site,) = storage.merge_breaks([kept, skipped])
    assert (site.events, site.skips_frame) == (4, True)
