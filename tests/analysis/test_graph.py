"""A recording as a graph tells what a report would: who compiled, what was missed, where tracing stopped."""

from __future__ import annotations

import networkx as nx
import pytest

from compilescope.analysis.graph import to_graph
from compilescope.record import (
    CodeObject,
    Compilation,
    EntryMiss,
    Failure,
    GraphBreak,
    Meta,
    Recompile,
    Recording,
)


@pytest.fixture
def recording() -> Recording:
    cause = Failure(source="x", guard="x", expected="1", actual="2", guard_type="EQUALS_MATCH", kind="python_int")
    again = Recompile(entries=(EntryMiss(id="0/0", failing=(cause,)),), closest="0/0", causes=(cause,))
    return Recording(
        meta=Meta(compilescope="0", torch="2", python="3", platform="Linux", device="cpu"),
        code_objects=(
            CodeObject(id="a.py:f", qualname="f", file="a.py", line=1),
            CodeObject(id="a.py:r", qualname="torch_dynamo_resume_in_f_at_3", file="a.py", line=3, resumes="a.py:f"),
        ),
        compilations=(
            Compilation(id="0/0", code="a.py:f", outcome="compiled", seconds=1.0),
            Compilation(id="0/1", code="a.py:f", outcome="compiled", seconds=1.0, recompile=again),
            Compilation(id="1/0", code="a.py:r", outcome="failed", seconds=1.0),
        ),
        graph_breaks=(
            GraphBreak(
                code="a.py:f",
                file="a.py",
                line=3,
                kind="print",
                registry_id=None,
                reason="print",
                events=2,
                skips_frame=False,
            ),
        ),
    )


def test_every_entry_hangs_from_its_code_and_a_failed_attempt_is_none(recording: Recording) -> None:
    graph = to_graph(recording)
    compiled = {(a, b) for a, b, kind in graph.edges(data="type") if kind == "compiled"}
    assert compiled == {("a.py:f", "0/0"), ("a.py:f", "0/1")}


def test_missed_entry_is_reached_with_the_cause(recording: Recording) -> None:
    edge = to_graph(recording).get_edge_data("0/1", "0/0")[0]
    assert (edge["type"], edge["kinds"], edge["sources"]) == ("missed", ("python_int",), ("x",))


def test_all_that_a_function_led_to_is_what_hangs_from_it(recording: Recording) -> None:
    assert nx.descendants(to_graph(recording), "a.py:r") == {"a.py:f", "0/0", "0/1", "a.py:3"}
