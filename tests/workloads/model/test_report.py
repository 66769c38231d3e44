"""One command reports on a model as it is: its class, a builder, an instance, with inputs from one line each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from compilescope.cli import main
from compilescope.storage import load as load_recording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from compilescope.record import Recording

    Write = Callable[..., Path]
    Run = Callable[..., Result]
    Report = Callable[..., Recording]

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width: int = 16, *, dropout: float = 0.0):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x, mask=None, scale=1.0):
        y = self.proj(x) * scale
        return y if mask is None else y.masked_fill(~mask[..., None], 0.0)

def build():
    return Net()

def compiled() -> nn.Module:
    return torch.compile(Net(), backend="eager")

net = Net(8)
"""
X = ("--input", "x=f32[batch,seq,16]")
EAGER = ("--backend", "eager")


@pytest.fixture
def run(folder: Path) -> Run:
    """Run a command in this process, in an empty folder."""
    return lambda *arguments: CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture
def report(run: Run, folder: Path) -> Report:
    """Report, and return the recording."""

    def recorded(*arguments: object) -> Recording:
        result = run("report", *arguments, "--save", "made.json")
        assert result.exit_code == 0, result.output
        return load_recording(folder / "made.json")

    return recorded


def refusal(result: Result) -> str:
    assert result.exit_code == 2
    return result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("name", ["Net", "build"])
def test_axes_without_values_go_up_and_down_and_back(write: Write, report: Report, name: str) -> None:
    made = report(f"{write(NET)}:{name}", *X, *EAGER, "--dynamic")
    (sweep,) = made.sweeps
    assert sweep.axes == {"batch": (5, 11, 2, 1, 0, 5), "seq": (7, 11, 2, 1, 0, 7)}
    assert sweep.order == "one_at_a_time"
    assert all(point.status == "ok" for point in sweep.points)
    assert sweep.setup == (
        "Net as a whole by torch.compile(dynamic=True, backend='eager'); evaluation mode, no gradients"
    )
    assert [target.status for target in made.targets] == ["compiled"]
    assert made.compilations[0].point == {"batch": 5, "seq": 7}


def test_swept_values_and_alternatives_are_the_axes(write: Write, report: Report) -> None:
    inputs = (*X, "--input", "mask=none|bool[batch,seq]", "--sweep", "batch=2", "--sweep", "seq=4,6")
    (sweep,) = report(f"{write(NET)}:Net", *inputs, *EAGER, "--order", "grid").sweeps
    assert sweep.axes == {"batch": (2,), "seq": (4, 6), "mask": (None, "bool[batch,seq]", None)}


def test_only_model_of_a_file_needs_no_name(write: Write, report: Report) -> None:
    made = report(write(NET.partition("def build")[0]), *X, *EAGER, "--sweep", "batch=2", "--sweep", "seq=3,4")
    assert made.sweeps[0].workload == "Net"


def test_instance_is_taken_as_it_is(write: Write, report: Report) -> None:
    values = ("--sweep", "batch=2", "--sweep", "seq=3")
    made = report(f"{write(NET)}:net", "--input", "x=f32[batch,seq,8]", *EAGER, *values)
    assert len(made.compiled) == 1


def test_what_the_program_compiles_is_left_as_it_is(write: Write, report: Report) -> None:
    made = report(f"{write(NET)}:compiled", *X, "--sweep", "batch=2", "--sweep", "seq=3,4")
    assert made.sweeps[0].setup == "as the program compiles it; evaluation mode, no gradients"
    assert len(made.compiled) == 2


def test_class_of_torch_itself_is_compiled(report: Report) -> None:
    arguments = ("--set", "d_model=8", "--set", "nhead=2", "--set", "batch_first=true", "--sweep", "n=3,4", *EAGER)
    made = report("torch.nn:TransformerEncoderLayer", *arguments, "--input", "src=f32[2,n,8]")
    assert [target.status for target in made.targets] == ["compiled"]
    assert not made.fallbacks


def test_main_input_of_a_model_is_asked_for_where_all_are_optional(write: Write, run: Run) -> None:
    text = NET.replace("(self, x, mask=None", "(self, mask=None, x=None")
    text = text.replace("    def forward", "    main_input_name = 'x'\n    def forward")
    result = run("report", f"{write(text)}:Net")
    assert result.stderr.splitlines()[1].endswith(":Net --input 'x=f32[batch,seq,16]'")


def test_constructor_takes_arguments_and_the_device(write: Write, report: Report) -> None:
    arguments = ("--set", "width=4", "--input", "x=f32[batch,seq,4]", "--sweep", "batch=2", "--sweep", "seq=3")
    made = report(f"{write(NET)}:Net", *arguments, "--device", "meta")
    assert made.meta.device == "meta"
    assert "backend='eager'" in (made.sweeps[0].setup or "")


def test_training_mode_has_gradients_and_dtype_is_that_of_the_parameters(write: Write, report: Report) -> None:
    text = "import torch\nclass Net(torch.nn.Linear):\n    def forward(self, x):\n        y = super().forward(x)\n"
    text += "        assert y.requires_grad and self.training and y.dtype is torch.bfloat16\n        return y\n"
    options = ("--set", "in_features=4", "--set", "out_features=4", "--input", "input=bf16[3,4]", "--train")
    text = text.replace("(self, x)", "(self, input)").replace("forward(x)", "forward(input)")
    made = report(f"{write(text)}:Net", *options, "--dtype", "bf16", *EAGER)
    assert (made.sweeps[0].setup or "").endswith("training mode")


EXAMPLES = {
    "a tensor": "example_inputs = torch.ones(2, 3, 16)",
    "a tuple": "example_inputs = (torch.ones(2, 3, 16),)",
    "a dict": "example_inputs = {'x': torch.ones(2, 3, 16), 'scale': 2.0}",
    "a function": "def example_inputs(): return torch.ones(2, 3, 16)",
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_example_inputs_give_the_axes(write: Write, report: Report, example: str) -> None:
    made = report(f"{write(NET + example)}:Net", *EAGER, "--sweep", "batch=2,3", "--sweep", "x_1=4")
    assert set(made.sweeps[0].axes) == {"batch", "x_1", "x_2"}
    assert made.sweeps[0].axes["x_2"] == (16,)
    assert "inputs x=f32[batch,x_1,x_2]" in (made.sweeps[0].setup or "")


def test_parameters_of_an_example_function_are_the_axes(write: Write, report: Report) -> None:
    text = f"{NET}\ndef example_inputs(seq): return {{'x': torch.ones(2, seq, 16)}}"
    made = report(f"{write(text)}:Net", *EAGER, "--sweep", "seq=3,4")
    assert made.sweeps[0].axes == {"seq": (3, 4)}
    assert len(made.compiled) == 2


def test_function_that_returns_a_model_is_one_that_builds_it(write: Write, report: Report) -> None:
    text = f"{NET}\nexample_inputs = torch.ones(2, 3, 16)\ndef anything(): return compiled()\n"
    made = report(f"{write(text)}:anything")
    assert made.sweeps[-1].workload == "anything"
    assert made.sweeps[-1].points[0].status == "ok"
    assert made.compiled


def test_inputs_that_nobody_gave_are_asked_for_with_a_command(write: Write, run: Run) -> None:
    path = write(NET)
    result = run("report", f"{path}:Net")
    assert result.exit_code == 2
    assert f"{path}:Net takes x, mask and scale; say what they are" in result.stderr
    assert f"compilescope report {path}:Net --input 'x=f32[batch,seq,16]'" in result.stderr


def test_script_that_compiles_nothing_says_how_to_report_on_its_model(write: Write, run: Run, folder: Path) -> None:
    path = write(NET.partition("def build")[0])
    assert run("report", path, "--save", "made.json").exit_code == 2
    command = f"compilescope report {path}:Net --input 'x=f32[batch,seq,16]'"
    assert load_recording(folder / "made.json").meta.next == (command,)


FUNCTION = """
import torch
def step(x, scale=2.0):
    return x * scale
"""


@pytest.mark.parametrize(
    "rest", ["fast = torch.compile(step)", "def other(x): ...\nfast = torch.compile(step, dynamic=True)"]
)
def test_script_that_never_calls_what_it_compiles_says_how_to_report_on_it(
    write: Write, run: Run, folder: Path, rest: str
) -> None:
    path = write(FUNCTION + rest)
    assert run("report", path, "--save", "made.json").exit_code == 2
    command = f"compilescope report {path}:step --input 'x=f32[batch,seq,16]'"
    assert load_recording(folder / "made.json").meta.next == (command,)


def test_function_that_takes_the_inputs_is_compiled_itself(write: Write, report: Report) -> None:
    made = report(f"{write(FUNCTION)}:step", "--input", "x=f32[n]", "--sweep", "n=3,4,5", *EAGER)
    assert [(target.selector, target.status, target.compiles) for target in made.targets] == [("step", "compiled", 2)]
    assert (made.sweeps[0].setup or "").startswith("step as a whole by torch.compile(backend='eager')")


def test_function_that_is_compiled_already_is_taken_as_it_is(write: Write, report: Report) -> None:
    text = FUNCTION.replace("def step", "@torch.compile(backend='eager', dynamic=True)\ndef step")
    made = report(f"{write(text)}:step", "--input", "x=f32[n]", "--sweep", "n=3,4,5")
    assert len(made.compiled) == 1
    assert (made.sweeps[0].setup or "").startswith("as the program compiles it")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--input", "y=f32[2]"), "has no input 'y'. It takes x, mask and scale."),
        (("--input", "mask=none"), "needs x: add --input 'x=f32[batch,seq,16]'"),
        ((*X, "--sweep", "bach=2"), "has no axis 'bach': its axes are batch and seq. Did you mean batch?"),
        ((*X, "--sweep", "batch=2,-3"), "The size batch is negative at batch=-3."),
        ((*X, "--set", "with=2"), "does not take with. Did you mean width?"),
        ((*X, "--compile", "Nett"), "--compile Nett: Net has no module of that class or name. Did you mean"),
        ((*X, "--config", "none.json"), "--config 'none.json' is neither NAME=VALUE nor a file that can be read"),
        ((*X, "--dtype", "int"), "--dtype 'int' is not a floating-point dtype such as bf16."),
        ((*X, "--device", "gpu"), "--device 'gpu' is not a device"),
        (("--input", "x=f32[batch,7]"), "at batch=5 without torch.compile; give values that it accepts: --sweep batch"),
        (("--input", "x=f32[2,7]"), "without torch.compile: check --input and --sweep."),
    ],
)
def test_what_does_not_fit_the_model_is_told_with_the_fix(
    write: Write, run: Run, arguments: tuple[str, ...], said: str
) -> None:
    assert said in refusal(run("report", f"{write(NET)}:Net", *EAGER, *arguments))


def test_model_that_needs_arguments_is_told(write: Write, run: Run) -> None:
    text = NET.replace("width: int = 16", "width")
    assert "needs width to be built: give --set width=VALUE." in refusal(run("report", f"{write(text)}:Net", *X))


def test_model_that_needs_weights_is_told(write: Write, run: Run) -> None:
    text = "import torch\nclass Lib:\n    @staticmethod\n    def from_pretrained():\n        raise OSError('offline')\n"
    text += "def build() -> torch.nn.Module:\n    return Lib.from_pretrained()\n"
    said = refusal(run("report", f"{write(text)}:build", *X))
    assert "cannot be built: OSError: offline" in said
    assert said.endswith("name the class itself with --config FILE.json, which gives it random ones.")


def test_model_that_is_compiled_already_is_not_compiled_again(write: Write, run: Run) -> None:
    said = refusal(run("report", f"{write(NET)}:compiled", *X, "--compile", "whole"))
    assert said.endswith("compiled is compiled already: leave out --compile.")


def test_options_of_models_are_refused_for_workloads_and_scripts_say_nothing_of_them(write: Write, run: Run) -> None:
    path = write("from compilescope import workload\n@workload\ndef w(): return print\n")
    assert "declares workloads, which build and compile their models themselves" in refusal(run("report", path, *X))


def test_written_workload_sweeps_the_same(write: Write, run: Run, report: Report, folder: Path) -> None:
    source = f"{write(NET).name}:Net"
    first = report(source, *X, *EAGER, "--write-workload", "committed.py")
    text = (folder / "committed.py").read_text()
    assert text.splitlines()[2] == "    compilescope check committed.py --no-shape-recompile"
    again = report("committed.py")
    assert again.sweeps[0].axes == first.sweeps[0].axes
    assert again.sweeps[0].order == first.sweeps[0].order
    kinds = [[cause.kind for cause in c.recompile.causes] for c in first.compilations if c.recompile]
    assert [[cause.kind for cause in c.recompile.causes] for c in again.compilations if c.recompile] == kinds
    assert [target.selector for target in again.targets] == ["Net.forward"]
    assert run("check", "committed.py", "--no-shape-recompile").exit_code == 1


def test_check_takes_a_model(write: Write, run: Run) -> None:
    values = ("--sweep", "batch=2", "--sweep", "seq=3,4", *X, *EAGER)
    source = f"{write(NET)}:Net"
    assert run("check", source, *values, "--no-shape-recompile").exit_code == 1
    assert run("check", source, *values, "--no-shape-recompile", "--dynamic").exit_code == 0


def test_module_runs_as_python_runs_it(folder: Path, run: Run) -> None:
    package = folder / "package_of_a_run"
    package.mkdir()
    (package / "__init__.py").write_text("")
    text = "import json, sys, torch\njson.dump([sys.argv[1:], __name__], open('said.json', 'w'))\n"
    (package / "train.py").write_text(f"{text}torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n")
    assert run("report", "-m", "package_of_a_run.train", "--", "--steps", "6").exit_code == 0
    assert json.loads((folder / "said.json").read_text()) == [["--steps", "6"], "__main__"]
    assert run("check", "-m", "package_of_a_run.train").exit_code == 0


def test_module_that_does_not_exist_is_told(run: Run) -> None:
    assert "-m no_such_thing: there is no module no_such_thing, neither here nor installed" in refusal(
        run("report", "-m", "no_such_thing")
    )


def test_command_without_a_source_is_told(run: Run) -> None:
    assert "Give a SOURCE (a model, a script, a workload, a recording), or -m MODULE." in refusal(run("report"))
