"""With room enough, the user's line is followed by torch's own."""

from __future__ import annotations

from compilescope.record import CodeObject, Compilation, CompileError, GraphBreak, Location, Meta, Recording
from compilescope.render.registry import render

INSIDE = Location(file="torch/nn/modules/linear.py", line=138)
RECORDING = Recording(
    meta=Meta(compilescope="0", torch="2.13.0", python="3.11", platform="Linux", device="cpu"),
    code_objects=(CodeObject(id="c", qualname="forward", file="model.py", line=1),),
    compilations=(
        Compilation(
            id="0/0",
            code="c",
            outcome="failed",
            seconds=0.1,
            error=CompileError(
                kind="internal", type="E", message="no", where=Location(file="model.py", line=3), torch_where=INSIDE
            ),
        ),
    ),
    graph_breaks=(
        GraphBreak(
            code="c",
            file="model.py",
            line=4,
            kind="item",
            registry_id=None,
            reason="no",
            events=1,
            skips_frame=False,
            torch_where=INSIDE,
        ),
    ),
)


def test_torchs_line_follows_the_users_for_errors_and_breaks() -> None:
    page = " ".join(render(RECORDING, "text", verbose=True, width=200).split())
    assert "at model.py:3, in torch/nn/modules/linear.py:138" in page
    assert "model.py:4 item 1 event in torch/nn/modules/linear.py:138" in page


def test_one_screen_holds_the_users_line_alone() -> None:
    page = render(RECORDING, "text")
    assert "model.py:4" in page
    assert "linear.py" not in page
