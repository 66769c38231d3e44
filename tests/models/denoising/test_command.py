"""The command prints two tables, writes strict JSON, and refuses in a sentence what makes no sense."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

pytest.importorskip("diffusers", reason="the model is built of diffusers' parts")

from models.denoising.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from models.denoising import Settings


def command(*arguments: str) -> Result:
    small = ("--size", "tiny", "--steps", "2", "--backend", "eager", "--set", "num_layers=1")
    return CliRunner().invoke(main, [*small, *arguments])


def strict_json(data: bytes) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise AssertionError(name)

    found: dict[str, Any] = json.loads(data, parse_constant=refuse)
    return found


@pytest.mark.usefixtures("fresh_dynamo")
def test_the_command_prints_two_tables_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    done = command("--request", "128x112x77", "--request", "160x112x33", "--remedies", "settings", "--json", str(file))
    assert done.exit_code == 0, done.output
    for words in ("128x112x77", "160x112x33", "compiled", "ms/step p50", "not measured", "PSNR dB", "rel L2"):
        assert words in done.output
    found = strict_json(file.read_bytes())
    assert found["order"] == ["eager", "compiled", "compiled", "eager"]
    assert found["model"]["num_layers"] == 1
    assert found["settings"]["remedies"] == "settings"
    assert [one["request"]["height"] for one in found["arms"][0]["measured"]] == [128, 160]
    assert [one["compiles"] for one in found["arms"][1]["measured"]] == [2, 0]
    assert found["arms"][0]["measured"][0]["peak_bytes"] is None


@pytest.mark.usefixtures("fresh_dynamo")
def test_the_command_exits_1_where_an_arm_raised() -> None:
    done = command("--height", "128", "--width", "112", "--attention", "flash_opaque", "--no-fused")
    assert done.exit_code == 1
    assert "compiled, 128x112x77: Unsupported" in done.output


def test_options_of_inductor_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[Any] = []

    def run(model: Any, requests: Any, settings: Settings) -> None:
        handed.append(settings.compile_options)
        msg = "far enough"
        raise ValueError(msg)

    monkeypatch.setattr("models.denoising.__main__.run_arms", run)
    command("--backend", "inductor", "--inductor", "epilogue_fusion=false", "--inductor", "a.b=text")
    assert handed == [{"options": {"epilogue_fusion": False, "a.b": "text"}}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--height", "100"), "Height and width are positive multiples of 16 pixels, not 100 x 256."),
        (("--request", "64x64"), "'64x64' is not HEIGHTxWIDTHxTEXT_LEN, such as 1024x768x77."),
        (("--request", "64x64x5", "--width", "64"), "--request stands in place of --height"),
        (("--text-len", "5000"), "The rotary tables hold 1024 positions, and this request needs 5001."),
        (("--device", "tpu"), "'tpu' is not cpu, cuda or cuda:N."),
        (("--device", "cuda:99"), "cuda:99 is not there"),
        (("--set", "depth=3"), "'depth' is no setting of the model"),
        (("--set", "num_layers"), "'num_layers' is not NAME=VALUE."),
        (
            ("--set", "num_kv_heads=3"),
            "The model cannot be built: 4 query heads cannot share 3 key-value heads evenly.",
        ),
        (("--set", "num_kv_heads=0"), "The model cannot be built: integer modulo by zero."),
        (("--set", "attention_backend=flash"), "attention_backend has an option of its own, --attention."),
        (("--size", "huge"), "'huge' is not one of"),
        (("--steps", "0"), "A run has at least 1 step, not 0."),
        (("--repeat", "0"), "Arms take turns at least once, not 0 times."),
        (("--warmup", "-1"), "0 steps or more are left out to warm up, not -1."),
        (("--inductor", "epilogue_fusion=false"), "the backend eager has no options of Inductor's."),
        (("--inductor", "epilogue_fusion", "--backend", "inductor"), "'epilogue_fusion' is not NAME=VALUE."),
        (("--remedies", "hope"), "'hope' is not one of"),
        (("--json", "/no/such/folder/found.json"), "/no/such/folder is no folder."),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_sentence(arguments: tuple[str, ...], words: str) -> None:
    done = command(*arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert "Traceback" not in done.output
