"""The first five lines of a failing test's section say what happened and what to do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compilescope.plugin.failure_section import section
from compilescope.plugin.lead import lead
from compilescope.plugin.marks import read_mark
from compilescope.plugin.rulings import Ruling
from compilescope.record import (
    CodeObject,
    Compilation,
    EntryMiss,
    Failure,
    Finding,
    GraphBreak,
    Meta,
    Recompile,
    Recording,
)
from compilescope.render.options import Options

META = Meta(compilescope="1", torch="2.13.0", python="3.11", platform="Linux", device="cpu", counts_runs=True)
BLOCK = CodeObject(id="m.py:Block.forward", qualname="Block.forward", file="m.py", line=1)
FOUND = Finding(rule="CS203", code=BLOCK.id, message="Block.forward was recompiled once as shapes changed", key="k")
BREAK = GraphBreak(
    code=BLOCK.id,
    file="m.py",
    line=7,
    kind="print",
    registry_id="GB0059",
    reason="Reorder a debugging function",
    events=1,
    skips_frame=False,
)


def recompiled(number: int, kind: str, advice: str | None, *, shape_driven: bool = True) -> Compilation:
    cause = Failure(source="x", guard="g", expected="3", actual="4", guard_type="T", kind=kind, advice=advice)
    why = Recompile(entries=(EntryMiss(id="0/0", failing=(cause,)),), causes=(cause,), shape_driven=shape_driven)
    return Compilation(id=f"0/{number}", code=BLOCK.id, outcome="compiled", seconds=0.1, recompile=why)


def recording(
    *compilations: Compilation, found: Finding | None = FOUND, breaks: tuple[GraphBreak, ...] = ()
) -> Recording:
    return Recording(
        meta=META,
        code_objects=(BLOCK,),
        compilations=compilations,
        graph_breaks=breaks,
        findings=() if found is None else (found,),
    )


def lines(made: Recording) -> list[str]:
    return lead(made, Options(more="-vv"), "It failed.").splitlines()


def test_what_happened_what_helps_and_what_is_next() -> None:
    assert lines(recording(recompiled(1, "size", "compile with dynamic=True"))) == [
        "Block.forward was recompiled once as shapes changed",
        "What helps: compile with dynamic=True",
        "Next: -vv for all | compilescope explain size | compilescope explain CS203",
    ]


@pytest.mark.parametrize("words", [1, 30, 45, 500])
def test_they_are_five_lines_at_most_and_no_advice_is_cut(words: int) -> None:
    advice = " ".join(["word"] * words)
    told = lines(recording(recompiled(1, "size", advice)))
    assert len(told) <= 5
    assert max(map(len, told)) <= 100
    helps = " ".join(" ".join(told[1:-1]).split())
    assert helps == f"What helps: {advice}" or helps.startswith("What helps: Compile with dynamic=True, mark"), helps
    assert told[-1].startswith("Next: ")


def test_shape_finding_is_helped_by_what_helps_against_shapes() -> None:
    made = recording(recompiled(1, "size", "for sizes"), recompiled(2, "dtype", "for dtypes", shape_driven=False))
    assert lines(made)[1] == "What helps: for sizes"
    assert lines(replace(made, findings=(replace(FOUND, rule="CS201"),)))[1] == "What helps: for dtypes"


def test_break_without_advice_of_its_own_is_helped_by_its_kind() -> None:
    found = Finding(rule="CS301", code=BLOCK.id, message="1 graph break, 0 allowed", file="m.py", line=7)
    assert lines(recording(found=found, breaks=(BREAK,)))[1] == "What helps: print outside the compiled code"
    advised = replace(BREAK, advice="drop the print")
    assert lines(recording(found=found, breaks=(advised,)))[1] == "What helps: drop the print"


def test_finding_without_a_cause_is_helped_by_its_rule() -> None:
    unseen = Finding(rule="CS102", code=None, message="Target Block.forward was never reached")
    assert lines(recording(found=unseen))[1].startswith("What helps: Compare its name with the compiled code")


def test_test_without_findings() -> None:
    compiled = Compilation(id="0/0", code=BLOCK.id, outcome="compiled", seconds=0.1)
    made = recording(compiled, found=None)
    assert lines(made) == ["It failed.", "Next: -vv for all"]
    assert section(made, "t.py::t", (), 0).startswith("The test itself failed, so nothing that it claims")
    mended = Ruling(read_mark("max_graph_breaks", (0,), {"broken": "why"}), ())
    assert section(made, "t.py::t", (mended,), 0).startswith("max_graph_breaks(0) holds now: remove its broken=.\n")


def test_no_step_is_cut_in_half() -> None:
    many = recording(*(recompiled(n, kind, None) for n, kind in enumerate(("torch_function_mode", "inference_tensor"))))
    row = lines(many)[-1]
    assert row == "Next: -vv for all | compilescope explain torch_function_mode | compilescope explain inference_tensor"


@pytest.mark.parametrize(("verbosity", "shown"), [(0, False), (1, False), (2, True)])
def test_everything_is_shown_where_pytest_is_asked_twice(verbosity: int, *, shown: bool) -> None:
    page = section(recording(recompiled(1, "size", "a"), found=None), "t.py::t", (), verbosity)
    assert ("Compilations in order" in page) is shown
    assert ("-vv for all" in page) is not shown
    assert "t.py::t" in page
