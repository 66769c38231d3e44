"""A source is run under observation from beginning to end, and its recording tells what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from compilescope.errors import UsageError, WorkloadError
from compilescope.workloads.locate import ScriptSource, WorkloadSource
from compilescope.workloads.points import Order
from compilescope.workloads.session import Settings, record_script, record_workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Write = Callable[..., Path]

LAYER = """
import torch
from torch import nn
from compilescope import Axis, workload

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(10, 10)

    def forward(self, x):
        return self.inner(x).relu()

def build(device):
    model = Block().to(device)
    model.compile(backend="eager", dynamic=True)
    return model
"""
ONE = (
    LAYER
    + """
@workload(axes=[Axis("text", [7, 12, 0, 1]), Axis("batch", [2, 3])], targets=[Block.forward])
def block(device="cpu"):
    model = build(device)
    return lambda text, batch: model(torch.ones(batch, text, 10, device=device))
"""
)
TWO = (
    ONE
    + """
@workload(axes=[Axis("text", [7, 12])])
def other():
    model = build("cpu")
    return lambda text: model(torch.ones(2, text, 10))
"""
)


@pytest.fixture(autouse=True)
def empty_caches() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def settings() -> Settings:
    return Settings(count_runs=False)


def test_sweep_is_recorded_with_its_points_and_summary(write: Write, settings: Settings) -> None:
    made = record_workloads(WorkloadSource(write(ONE)), settings)
    assert made.meta.run.status == "ok"
    (sweep,) = made.sweeps
    assert (sweep.workload, sweep.order, len(sweep.points)) == ("block", "grid", 8)
    assert sweep.summary["batch"].free
    assert sweep.summary["text"].compiles_at == (0, 1)
    assert [one.point["text"] for one in made.compiled] == [7, 0, 1]
    assert [one.recompile.axes for one in made.recompiles] == [("text",), ("text",)]
    assert [(target.status, target.compiles) for target in made.targets] == [("compiled", 3)]


def test_values_order_and_targets_of_the_command_line(write: Write) -> None:
    chosen = Settings(
        values={"text": ["7", "8"], "batch": ["2"]}, order=Order("grid", returns=True), patterns=("nothing.*",)
    )
    made = record_workloads(WorkloadSource(write(ONE)), chosen)
    (sweep,) = made.sweeps
    assert sweep.axes == {"text": (7, 8), "batch": (2,)}
    assert [point.values["text"] for point in sweep.points] == [7, 8, 7]
    assert {target.selector: target.status for target in made.targets}["nothing.*"] == "never_reached"


def test_parity_is_taken_at_every_point_and_adds_no_compilation(write: Write) -> None:
    with_parity = Settings(parity=True, count_runs=False)
    made = record_workloads(WorkloadSource(write(ONE)), with_parity)
    assert all(point.parity.bitwise for point in made.sweeps[0].points)
    assert len(made.compiled) == 3


def test_meta_device_is_handed_to_the_factory(write: Write) -> None:
    made = record_workloads(
        WorkloadSource(write(ONE)), Settings(arguments={"device": "meta"}, parity=True, count_runs=False)
    )
    assert {point.status for point in made.sweeps[0].points} == {"ok"}
    assert {point.parity for point in made.sweeps[0].points} == {None}
    assert made.meta.device == "meta"
    assert len(made.compiled) == 3


def test_arguments_of_the_factory_are_read_as_what_they_replace(write: Write) -> None:
    path = write(
        "from compilescope import workload\n@workload\ndef w(dynamic=True, width=3, name='x', other=None):\n"
        "    assert (dynamic, width, name, other) == (None, 4, '5', False)\n    return lambda: None\n"
    )
    arguments = {"dynamic": "none", "width": "4", "name": "5", "other": "false"}
    made = record_workloads(WorkloadSource(path), Settings(arguments=arguments, count_runs=False))
    assert made.meta.run.status == "ok"


def test_workloads_of_one_file_are_told_apart_though_they_share_axes(write: Write) -> None:
    chosen = Settings(values={"batch": ["2"]}, count_runs=False)
    made = record_workloads(WorkloadSource(write(TWO)), chosen)
    block, other = made.sweeps
    assert block.summary.keys() == {"text"}
    assert not block.summary["text"].free
    assert other.summary["text"].free


def test_two_workloads_with_the_very_same_axes_are_told_apart(write: Write) -> None:
    text = LAYER + "".join(
        f"@workload(axes=[Axis('n', [3, 5])])\ndef {name}():\n"
        f"    f = torch.compile(lambda x: x + 1, backend='eager', dynamic={name == 'dynamic'})\n"
        "    return lambda n: f(torch.ones(n))\n"
        for name in ("static", "dynamic")
    )
    static, dynamic = record_workloads(WorkloadSource(write(text)), Settings(count_runs=False)).sweeps
    assert static.summary["n"].compiles_at == (5,)
    assert dynamic.summary["n"].free


def test_plain_function_takes_its_axes_from_the_command_line(write: Write) -> None:
    path = write(
        "import torch\n@torch.compile(backend='eager', dynamic=False)\ndef f(x):\n    return x + 1\n"
        "def run(n=2, mode='a'):\n    f(torch.ones(n))\n"
    )
    source = WorkloadSource(path, "run")
    assert len(record_workloads(source, Settings(count_runs=False)).compiled) == 1
    swept = record_workloads(source, Settings(values={"n": ["3", "4"]}, count_runs=False))
    assert [one.point for one in swept.compiled] == [{"n": 3}, {"n": 4}]
    with pytest.raises(WorkloadError, match="does not take the axis m"):
        record_workloads(source, Settings(values={"m": ["3"]}, count_runs=False))


def test_doubts_are_told_before_the_run_and_kept(write: Write) -> None:
    told = []
    chosen = Settings(values={"text": ["10", "7"], "batch": ["2"]}, count_runs=False, warn=told.append)
    made = record_workloads(WorkloadSource(write(ONE)), chosen)
    (said,) = told
    assert said.startswith("block: text is 10 at the first point, and so is a fixed width of the model (inner.weight")
    assert made.sweeps[0].warnings == (said.removeprefix("block: "),)
    assert made.sweeps[0].summary["text"].compiles_at == (7,), "the doubt was right"


def test_axis_that_no_workload_has_is_refused(write: Write) -> None:
    with pytest.raises(UsageError, match="Workload 'block' has no axis 'txt': its axes are text and batch"):
        record_workloads(WorkloadSource(write(TWO)), Settings(values={"txt": ["1"]}))


def test_first_workload_that_cannot_be_run_is_an_error(write: Write, settings: Settings) -> None:
    path = write("from compilescope import workload\n@workload\ndef w():\n    return 7\n")
    with pytest.raises(WorkloadError, match="returned int"):
        record_workloads(WorkloadSource(path), settings)


def test_later_workload_that_cannot_be_run_leaves_the_earlier_recorded(write: Write, settings: Settings) -> None:
    made = record_workloads(WorkloadSource(write(ONE + "@workload\ndef late():\n    return 7\n")), settings)
    assert made.meta.run.status == "raised"
    assert "returned int" in made.meta.run.error
    assert len(made.sweeps[0].points) == 8


def test_factory_that_raises_is_the_end_of_the_run(write: Write, settings: Settings) -> None:
    made = record_workloads(WorkloadSource(write(ONE + "@workload\ndef late():\n    return 1 / 0\n")), settings)
    assert made.meta.run.status == "raised"
    assert made.meta.run.error.startswith("ZeroDivisionError: division by zero (")
    assert made.meta.run.error.endswith("in the factory of workload 'late'")
    assert "return 1 / 0" in made.meta.run.traceback
    assert len(made.sweeps) == 1


def test_interrupt_in_a_sweep_keeps_what_was_recorded(write: Write, settings: Settings) -> None:
    path = write(
        LAYER + "@workload(axes=[Axis('n', [3, 5, 7])])\ndef w():\n    model = build('cpu')\n"
        "    def call(n):\n        if n == 5:\n            raise KeyboardInterrupt\n"
        "        model(torch.ones(n, 10))\n    return call\n"
    )
    made = record_workloads(WorkloadSource(path), settings)
    assert made.meta.run.status == "interrupted"
    assert len(made.compiled) == 1
    assert [point.values for point in made.sweeps[0].points] == [{"n": 3}]
    assert not made.sweeps[0].completed


def test_interrupt_in_a_factory_keeps_what_was_recorded(write: Write, settings: Settings) -> None:
    made = record_workloads(WorkloadSource(write(ONE + "@workload\ndef w():\n    raise KeyboardInterrupt\n")), settings)
    assert made.meta.run.status == "interrupted"
    assert len(made.sweeps) == 1


def test_workload_that_fails_at_every_point_has_crashed(write: Write, settings: Settings) -> None:
    path = write(LAYER + "@workload(axes=[Axis('n', [1, 2])])\ndef w():\n    return lambda n: n / 0\n")
    made = record_workloads(WorkloadSource(path), settings)
    assert made.meta.run.status == "raised"
    assert made.meta.run.error.endswith("at every point of workload 'w'")
    assert "n / 0" in made.meta.run.traceback


def test_script_is_recorded_and_its_output_goes_to_stderr(
    write: Write, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("import torch\nf = torch.compile(lambda x: x + 1, backend='eager')\nprint(f(torch.ones(3)))\n")
    made = record_script(ScriptSource(path), (), settings)
    assert made.meta.run.status == "ok"
    assert len(made.compiled) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "tensor([2., 2., 2.])\n"


def test_script_that_raises_keeps_what_was_compiled(write: Write, settings: Settings) -> None:
    path = write("import torch\nf = torch.compile(lambda x: x + 1, backend='eager')\nf(torch.ones(3))\n1 / 0\n")
    made = record_script(ScriptSource(path), (), settings)
    assert (made.meta.run.status, len(made.compiled)) == ("raised", 1)
