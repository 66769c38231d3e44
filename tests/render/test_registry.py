"""What holds for every format."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compilescope.analysis.kinds import KINDS
from compilescope.errors import UsageError
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
from compilescope.render.markdown.page import LIMIT
from compilescope.render.registry import FORMATS, render
from compilescope.render.text.layout import HEIGHT
from compilescope.storage import from_json, to_json

ALL = ("clean", "flux", "nothing", "limit_hit", "faulty", "big", "hostile")

words = st.text(max_size=20)
maybe = st.none() | words
names = st.from_regex(r"[A-Z][a-z_]{1,8}\.forward", fullmatch=True)
numbers = st.integers(0, 500)
ids = st.sampled_from(["a", "b", "c", "d"])
scalars = st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | words
points = st.dictionaries(words, scalars, max_size=3)
places = st.builds(Location, file=words, line=numbers, text=maybe)
seconds = st.floats(0, 100)
failures = st.builds(
    Failure,
    source=words,
    guard=words,
    expected=words,
    actual=words,
    where=st.none() | places,
    guard_type=words,
    raised=maybe,
    consequence_of=maybe,
    kind=st.none() | st.sampled_from(sorted(KINDS)) | words,
    advice=maybe,
)
some_failures = st.lists(failures, max_size=3).map(tuple)
entries = st.builds(EntryMiss, id=ids, failing=some_failures)
recompiles = st.builds(
    Recompile,
    entries=st.lists(entries, max_size=3).map(tuple),
    closest=st.none() | ids,
    alternatives=st.lists(ids, max_size=2).map(tuple),
    shape_driven=st.none() | st.booleans(),
    axes=st.none() | st.lists(words, max_size=2).map(tuple),
    causes=some_failures,
)
errors = st.builds(CompileError, kind=words, type=words, message=words, source=maybe, where=st.none() | places)
compilations = st.builds(
    Compilation,
    id=ids,
    code=ids,
    outcome=st.sampled_from(["compiled", "compiled", "skipped", "limit", "failed", "empty"]),
    seconds=seconds,
    point=st.none() | points,
    guards=st.none() | numbers,
    operators=st.none() | numbers,
    backend=maybe,
    error=st.none() | errors,
    recompile=st.none() | recompiles,
)
codes = st.builds(CodeObject, id=ids, qualname=names, file=words, line=numbers, resumes=st.none() | ids, owner=maybe)
breaks = st.builds(
    GraphBreak,
    code=ids,
    file=words,
    line=numbers,
    kind=words,
    registry_id=maybe,
    reason=words,
    events=numbers,
    skips_frame=st.booleans(),
    text=maybe,
)
positive = st.floats(0, 10)
parities = st.builds(Parity, max_abs=positive, relative_l2=positive, psnr=st.none() | positive, bitwise=st.booleans())
sweep_points = st.builds(
    SweepPoint,
    values=points,
    status=st.sampled_from(["ok", "error"]),
    seconds=seconds,
    error=maybe,
    parity=st.none() | parities,
)
few = st.lists(scalars, max_size=4).map(tuple)
summaries = st.builds(
    AxisSummary, free=st.booleans(), compiles_at=few, because=st.lists(words, max_size=2).map(tuple), free_except=few
)
sweeps = st.builds(
    Sweep,
    workload=words,
    order=words,
    axes=st.dictionaries(words, few, max_size=3),
    points=st.lists(sweep_points, max_size=4).map(tuple),
    summary=st.none() | st.dictionaries(words, summaries, max_size=3),
    warnings=st.lists(words, max_size=2).map(tuple),
    completed=st.booleans(),
)
targets = st.builds(
    Target,
    selector=words,
    status=st.sampled_from(["compiled", "inlined", "cached", "skipped", "never_reached"]),
    compiles=numbers,
    codes=st.lists(ids, max_size=2).map(tuple),
    inlined_into=st.none() | ids,
)
fallbacks = st.builds(
    Fallback,
    code=ids,
    kind=st.sampled_from(["recompile_limit", "skipped_frame", "user_exception", "stance"]),
    calls=st.none() | numbers,
    detail=words,
)
findings = st.builds(Finding, rule=words, code=st.none() | ids, message=words, file=maybe, line=st.none() | numbers)
runs = st.builds(
    Run,
    status=st.sampled_from(["ok", "raised", "exited", "interrupted"]),
    exit_code=st.none() | numbers,
    error=maybe,
    traceback=maybe,
)
metas = st.builds(
    Meta,
    compilescope=words,
    torch=words,
    python=words,
    platform=words,
    device=words,
    rank=st.none() | numbers,
    argv=st.lists(words, max_size=2).map(tuple),
    config=st.dictionaries(words, scalars, max_size=2),
    counts_runs=st.booleans(),
    run=st.none() | runs,
)


def several(strategy: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


recordings = st.builds(
    Recording,
    meta=metas,
    code_objects=several(codes, 4),
    compilations=several(compilations, 6),
    graph_breaks=several(breaks),
    fallbacks=several(fallbacks),
    targets=several(targets),
    sweeps=several(sweeps, 2),
    findings=several(findings),
)


@given(recording=recordings)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_recording_renders_in_any_format(recording: Recording) -> None:
    pages = {(name, verbose): render(recording, name, verbose=verbose) for name in FORMATS for verbose in (False, True)}
    assert len(pages["text", False].splitlines()) <= HEIGHT
    assert max(len(pages["markdown", verbose]) for verbose in (False, True)) < LIMIT
    for line in pages["json-lines", False].removesuffix("\n").split("\n"):
        assert json.loads(line)["type"]
    known = {code.id: code.qualname for code in recording.code_objects}
    for compilation in recording.recompiles:
        assert known.get(compilation.code, compilation.code) in pages["text", True]
    for page in pages.values():
        assert page.endswith("\n")


@pytest.mark.parametrize("name", ALL)
def test_json_reads_back_as_the_same_recording(name: str, request: pytest.FixtureRequest) -> None:
    recording = request.getfixturevalue(name)
    assert from_json(render(recording, "json").encode()) == recording


@pytest.mark.parametrize("name", ALL)
def test_json_lines_hold_every_record_under_its_type(name: str, request: pytest.FixtureRequest) -> None:
    recording = request.getfixturevalue(name)
    lines = [json.loads(line) for line in render(recording, "json-lines").splitlines()]
    assert lines[0]["type"] == "meta"
    whole = json.loads(to_json(recording))
    for part, kind in (
        ("code_objects", "code_object"),
        ("compilations", "compilation"),
        ("graph_breaks", "graph_break"),
        ("fallbacks", "fallback"),
        ("targets", "target"),
        ("sweeps", "sweep"),
        ("findings", "finding"),
    ):
        typed = [{key: value for key, value in line.items() if key != "type"} for line in lines if line["type"] == kind]
        assert typed == whole[part]


COMMANDS = ("::add-mask::", "##[add-mask]", "###[group] x", "##vso[task.complete]", "##teamcity[buildStop]")
RUNNERS = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)
OWN = re.compile(r"^::(?:error|warning|notice) .*\n", re.MULTILINE)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_no_line_is_a_command_to_the_log_that_it_stands_in(hostile: Recording, name: str) -> None:
    nasty = msgspec.json.encode(hostile.targets[0].selector)[1:-1]
    for text in (*COMMANDS, *(f"\n  {command}" for command in COMMANDS)):
        data = to_json(hostile).replace(nasty, msgspec.json.encode(text)[1:-1])
        assert RUNNERS.search(msgspec.json.decode(data)["targets"][0]["selector"])
        for verbose in (False, True):
            page = render(from_json(data), name, verbose=verbose)
            # The format `github` is made of commands, and the runner looks for no other within one.
            assert not RUNNERS.search(OWN.sub("", page) if name == "github" else page)


def test_an_unknown_format_names_the_known_ones(clean: Recording) -> None:
    with pytest.raises(UsageError, match=f"no format 'pdf'; the formats are {', '.join(sorted(FORMATS))}"):
        render(clean, "pdf")


def test_every_format_has_its_own_name_and_file_ending() -> None:
    assert all(name == renderer.name for name, renderer in FORMATS.items())
    endings = [renderer.extension for renderer in FORMATS.values()]
    assert len(set(endings)) == len(endings)
    assert all(ending.startswith(".") for ending in endings)


def test_rendering_imports_no_torch(flux: Recording) -> None:
    program = (
        "import sys; from compilescope.render.registry import FORMATS, render; "
        "from compilescope.storage import from_json; r = from_json(sys.stdin.buffer.read()); "
        "[render(r, name, verbose=True) for name in FORMATS]; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=msgspec.json.encode(flux), capture_output=True, check=True
    )
    assert done.stdout.strip() == b"False"
