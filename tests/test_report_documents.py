"""What the README and docs/report.md say of reporting on a model is what the code does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from compilescope.cli import main
from compilescope.workloads.locate import locate
from compilescope.workloads.model.input_spec import read_inputs

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENT = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")


def commands(text: str) -> list[str]:
    scripts = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)).replace("\\\n", " ")
    return [line for line in scripts.splitlines() if line.startswith("compilescope ")]


@pytest.mark.parametrize("command", [*commands(README), *commands(DOCUMENT)])
def test_command_is_one_that_the_command_line_takes(command: str) -> None:
    _, name, *arguments = shlex.split(command, comments=True)
    context = main.commands[name].make_context(name, arguments)  # type: ignore[attr-defined]  # main is a group
    read_inputs(context.params.get("input_", ()))


def test_values_of_the_table_are_inputs() -> None:
    table = DOCUMENT.partition("| VALUE | is |")[2].partition("\n\n")[0]
    values = re.findall(r"`([^`]+)`", "\n".join(line.rpartition(" | ")[0] for line in table.splitlines()))
    assert len(values) > 10
    for value in values:
        read_inputs([f"x={value}".replace("\\|", "|")])


def test_command_for_a_model_is_the_first_after_installation() -> None:
    first = next(command for command in commands(README) if not command.startswith("compilescope report examples/flux"))
    assert first.startswith("compilescope report examples/model.py --input 'x=f32[batch,seq,16]'")


@pytest.mark.usefixtures("fresh_dynamo")
def test_written_workload_is_the_one_that_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = re.findall(r"```python\n(from compilescope import model_workload.*?)```", DOCUMENT, flags=re.DOTALL)
    (command,) = (one for one in commands(DOCUMENT) if "--write-workload" in one)
    monkeypatch.chdir(ROOT)
    written = tmp_path / "net_workload.py"
    arguments = [word.replace("net_workload.py", str(written)) for word in shlex.split(command)[1:]]
    result = CliRunner().invoke(main, [*arguments, "--backend", "eager"])
    assert result.exit_code == 0, result.output
    text = written.read_text()
    assert text.partition('"""\n\n')[2].replace('    backend="eager",\n', "") == shown.replace("\nnet =", "\nnet =")


@pytest.mark.parametrize("command", [one for one in commands(README) if " examples/" in one])
def test_files_that_commands_name_are_there(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (source,) = (word for word in shlex.split(command, comments=True) if word.startswith("examples/"))
    locate(source)
