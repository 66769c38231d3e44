"""The table of what every family compiles: its rows, its two forms, and what it counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are diffusers'")

from models import table  # noqa: E402 (behind the skips)
from models.families import free_sizes  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def test_command_prints_and_writes_one_row_for_each_block_of_a_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not free_sizes.SUPPORTED:
        pytest.skip("this torch cannot be told a least size")
    monkeypatch.setattr(table, "RESOLUTIONS", ((3, 7), (5, 7)))
    output = tmp_path / "table.json"
    arguments = ["--family", "flux2", "--arm", "fused+remedies", "--json", str(output)]
    result = CliRunner().invoke(table.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "| flux2 | fused+remedies | Flux2TransformerBlock | 1 |  | 0 |" in result.output
    rows = json.loads(output.read_text())
    assert [(row["block"], row["compilations"], row["causes"], row["breaks"]) for row in rows] == [
        ("Flux2TransformerBlock", 1, {}, 0),
        ("Flux2SingleTransformerBlock", 1, {}, 0),
    ]
    assert all(row["parity"] < 1e-5 for row in rows)


def test_rows_say_why_stock_blocks_compile_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "RESOLUTIONS", ((5, 7),))
    monkeypatch.setattr(table, "BATCHES", (2,))
    dual, single = table.measure("flux2", "stock")
    assert (dual.compilations, single.compilations) == (3, 1)
    assert dual.causes == {"zero_one encoder_hidden_states.size()[1]": 2}
    assert not single.causes


def test_family_that_takes_no_empty_text_is_not_given_one() -> None:
    lengths = {name: {size.text_len for size in table.sizes(table.FAMILIES[name])} for name in ("flux", "qwen_image")}
    assert lengths == {"flux": {0, 1, 7, 77}, "qwen_image": {1, 7, 77}}
