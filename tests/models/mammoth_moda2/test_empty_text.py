"""The empty prompt of classifier-free guidance, without the model's own skip: only a size changes, in every order.

Its rotary table has the tokens' size under another name, and the strides of an empty tensor are those of size 1. What
keeps the older graph from serving it is the zero size alone, and a gate on shapes must be red.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import compilescope
from compilescope.cli import main
from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.diffusers_dits import Size  # noqa: E402 (behind the skips)
from models.mammoth_moda2 import Transformer2DModel, build, inputs, tables  # noqa: E402
from models.mammoth_moda2.rope import text_positions  # noqa: E402
from models.regional import regionally_compile  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from compilescope.record import Recording

BLOCK = "TransformerBlock.forward"
pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def refine_every_text(self: Transformer2DModel, text: torch.Tensor, given: object) -> torch.Tensor:
    """Refine the text as the model does, an empty one too."""
    lengths = [sample.text for sample in given.samples]
    mask = self._mask(lengths, text.shape[1], text.device)
    rotary = self._rotary(given, [text_positions(n, text.device) for n in lengths], text.shape[1], text.dtype)
    text = text.clone()
    for block in self.context_refiner:
        text = block(text, mask, rotary)
    return text


@pytest.fixture
def without_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transformer2DModel, "_refine_text", refine_every_text)


def guided(lengths: tuple[int, ...]) -> Recording:
    """Run the compiled model over these text lengths and return what was recorded."""
    model = build()
    regionally_compile(model, backend="eager", dynamic=True, fullgraph=True)
    freqs_cis = tables(model)
    with compilescope.observe(targets=[BLOCK], count_runs=True) as scope, torch.no_grad():
        for text_len in lengths:
            model(**inputs(model, Size(8, 8, text_len, 1), freqs_cis))
    return scope.recording


@pytest.mark.usefixtures("without_skip")
@pytest.mark.parametrize("lengths", [*itertools.permutations((77, 4, 0)), *itertools.permutations((77, 0))], ids=str)
def test_zero_size_is_the_whole_cause_and_the_gate_is_red(lengths: tuple[int, ...]) -> None:
    recording = guided(lengths)
    driven = [c.recompile for c in recording.recompiles if c.recompile is not None and c.recompile.shape_driven]
    assert [[cause.kind for cause in recompile.causes] for recompile in driven] == [["zero_one"]]
    (cause,) = driven[0].causes
    assert "0" in (cause.expected, cause.actual)
    assert driven[0].entries[-1].confirmed
    assert [finding.rule for finding in judge(recording, Budget(no_shape_recompile=True))] == ["CS203"]


WORKLOAD = """
from compilescope import Axis, workload
from models.mammoth_moda2 import Transformer2DModel
from tests_of_the_empty_text import guided_call, refine_every_text


@workload(axes=[Axis("text_len", [77, 4, 0])], targets=["TransformerBlock.forward"])
def without_skip():
    Transformer2DModel._refine_text = refine_every_text
    return guided_call()
"""


def guided_call() -> object:
    """Build and compile a model; return a call of one text length."""
    model = build()
    regionally_compile(model, backend="eager", dynamic=True, fullgraph=True)
    model.requires_grad_(requires_grad=False)
    freqs_cis = tables(model)
    return lambda text_len: model(**inputs(model, Size(8, 8, text_len, 1), freqs_cis))


@pytest.mark.usefixtures("without_skip")
@pytest.mark.parametrize(("verb", "exit_code"), [("report", 0), ("check", 1)])
def test_report_says_shape_driven_and_check_fails(
    verb: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tests_of_the_empty_text", sys.modules[__name__])
    (tmp_path / "guided.py").write_text(WORKLOAD, encoding="utf-8")
    arguments = [verb, str(tmp_path / "guided.py"), *(["--no-shape-recompile"] if verb == "check" else [])]
    ended = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert ended.exit_code == exit_code, ended.output
    page = " ".join(ended.stdout.split())
    assert "(shape-driven; text_len changed)" in page
    assert "not shape-driven" not in page
    assert ".contiguous()" not in page
