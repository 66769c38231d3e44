"""A gate is worth what it catches: each fault breaks one thing in a project that passes, and the check must turn red.

Two projects pass: a saved recording with a baseline, and a workload that is run. A fault is a function that
changes one of their files. Beside it stands what the check must answer: its exit code, and the rule or the
words that say so, lest it be red for another reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from compilescope.cli import main
from compilescope.record import Recording, Run
from compilescope.storage import from_json, to_json

from .gate.making import (
    BLOCK,
    broken_at,
    cause,
    compiled,
    eager,
    failed,
    meta,
    point,
    sound,
    sweep,
    target,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Fault = Callable[["Saved"], None]
    Edit = Callable[[str], str]

BUDGET = """
[tool.compilescope.budget]
max-compiles = 2
max-recompiles = 0
max-recompiles-by-kind = {module_type = 1}
no-shape-recompile = true
max-graph-breaks = 1
max-own-graph-breaks = 0
own = "src/pkg"
min-operators = 6
max-guards = 40
max-relative-l2 = 0.01
"""
ACCEPTED = {"CS502 src/pkg/model.py:Block.forward": 41}


# --- a saved recording and its baseline ------------------------------------------------------------


@dataclass
class Saved:
    """The files of a project that checks a recording; whatever a fault changes is written as it is."""

    recording: Recording
    baseline: object = field(default_factory=lambda: {"format": 1, "torch": {"2.13": {**ACCEPTED, "~": 0}}})
    settings: str = BUDGET
    run: bytes | None = None
    arguments: list[str] = field(default_factory=list)

    def change(self, **changes: object) -> None:
        self.recording = replace(self.recording, **changes)

    def write(self, folder: Path) -> None:
        (folder / "pyproject.toml").write_text(self.settings)
        (folder / "run.json").write_bytes(to_json(self.recording) if self.run is None else self.run)
        if self.baseline is not None:
            text = self.baseline if isinstance(self.baseline, str) else json.dumps(self.baseline)
            (folder / "b.json").write_text(text)


def passing() -> Saved:
    """One entry has a guard too many, which the baseline accepts; a library breaks the graph once, which is allowed."""
    theirs = broken_at(file="diffusers/attn.py")
    second = compiled("0/1", BLOCK, cause("module_type", "self.norm1"), guards=41)
    return Saved(sound(compilations=(compiled("0/0"), second), graph_breaks=(theirs,)))


def again(project: Saved, **changes: object) -> None:
    """Add a compilation to the two."""
    known = project.recording.compilations
    project.change(
        compilations=(*known, replace(compiled("0/2", BLOCK, cause("module_type", "self.norm1")), **changes))
    )


def recompiled_for(project: Saved, kind: str) -> None:
    project.change(compilations=(compiled("0/0"), compiled("0/1", BLOCK, cause(kind), guards=41)))


def json_with(project: Saved, change: Callable[[dict[str, object]], None]) -> None:
    whole = json.loads(to_json(project.recording))
    change(whole)
    project.run = json.dumps(whole).encode()


def of_target(project: Saved, **changes: object) -> None:
    project.change(targets=(target(**changes),))


def of_point(project: Saved, **changes: object) -> None:
    project.change(sweeps=(sweep(point(4), point(77, **changes)),))


def unjudged(project: Saved) -> None:
    first, second = project.recording.compilations
    assert second.recompile is not None
    project.change(compilations=(first, replace(second, recompile=replace(second.recompile, shape_driven=None))))


SAVED: dict[str, tuple[Fault, int, str]] = {
    # the file
    "recording is empty": (lambda p: setattr(p, "run", b""), 2, "is empty"),
    "recording was cut short": (lambda p: setattr(p, "run", to_json(p.recording)[:-40]), 2, "was cut short"),
    "recording is foreign JSON": (
        lambda p: setattr(p, "run", b'{"version": "2.1.0", "runs": []}'),
        2,
        "not a compilescope",
    ),
    "recording is of a later format": (lambda p: json_with(p, lambda r: r["meta"].update(format=2)), 2, "format 2"),  # type: ignore[attr-defined]
    "recording holds NaN, written as null": (
        lambda p: json_with(p, lambda r: r["compilations"][0].update(seconds=None)),  # type: ignore[index]
        2,
        "does not follow recording format 1",
    ),
    "recording lost its compilations": (lambda p: p.change(compilations=(), code_objects=()), 1, "CS101"),
    # what was seen
    "runs were not counted": (lambda p: p.change(meta=meta(counts_runs=False)), 1, "CS113"),
    "workload raised": (lambda p: p.change(meta=meta(run=Run(status="raised", error="E: x"))), 2, "CS110"),
    "workload ended with a failing code": (
        lambda p: p.change(meta=meta(run=Run(status="exited", exit_code=1))),
        2,
        "CS110",
    ),
    "workload was interrupted": (lambda p: p.change(meta=meta(run=Run(status="interrupted"))), 130, "CS110"),
    "sweep was cut short": (lambda p: p.change(sweeps=(sweep(completed=False),)), 1, "CS111"),
    "sweep lost its points": (lambda p: p.change(sweeps=(replace(sweep(), points=()),)), 1, "CS111"),
    "one point raised": (lambda p: of_point(p, status="error", error="IndexError: x"), 1, "CS112"),
    "sweep ran a single point": (lambda p: p.change(sweeps=(sweep(point(4)),)), 1, "CS107"),
    "parity was not looked at": (lambda p: of_point(p, parity=None), 1, "CS117"),
    "operators were not counted": (lambda p: again(p, operators=None), 1, "CS117"),
    "time runs backwards": (lambda p: again(p, seconds=-1.0), 1, "CS115"),
    "target was renamed": (lambda p: of_target(p, status="never_reached", compiles=0, codes=()), 1, "CS102"),
    "target was inlined": (lambda p: of_target(p, status="inlined", compiles=0, codes=()), 1, "CS103"),
    "target came from an earlier cache": (lambda p: of_target(p, status="cached", compiles=0, codes=()), 1, "CS104"),
    "target was skipped": (lambda p: of_target(p, status="skipped", compiles=0, codes=()), 1, "CS105"),
    "another target is asked for": (lambda p: p.arguments.extend(["--target", "Layer.forward"]), 1, "CS106"),
    "own code is elsewhere": (lambda p: setattr(p, "settings", BUDGET.replace("src/pkg", "source")), 1, "CS108"),
    # what was seen to be wrong
    "cause is unknown": (lambda p: recompiled_for(p, "unknown"), 1, "CS116"),
    "guard raised": (lambda p: recompiled_for(p, "guard_error"), 1, "CS116"),
    "shapes were not judged": (unjudged, 1, "CS114"),
    "shape recompile": (lambda p: recompiled_for(p, "size"), 1, "CS203"),
    "dtype recompile": (lambda p: recompiled_for(p, "dtype"), 1, "CS202"),
    "one recompile more of the allowed kind": (again, 1, "CS205"),
    "one compile too many": (lambda p: again(p, recompile=None), 1, "CS201"),
    "recompile limit was raised and met": (
        lambda p: p.change(
            meta=meta(config={"recompile_limit": 64}),
            compilations=(*p.recording.compilations, failed("recompile_limit", outcome="limit")),
        ),
        1,
        "CS204",
    ),
    "recompile limit left calls eager": (lambda p: p.change(fallbacks=(eager("recompile_limit"),)), 1, "CS204"),
    "frame was skipped": (lambda p: p.change(fallbacks=(eager("skipped_frame"),)), 1, "CS401"),
    "backend error was suppressed": (lambda p: p.change(fallbacks=(eager("backend_error"),)), 1, "CS401"),
    "stance was eager": (lambda p: p.change(fallbacks=(eager("stance"),)), 1, "CS401"),
    "dispatch mode was active": (lambda p: p.change(fallbacks=(eager("dispatch_mode"),)), 1, "CS401"),
    "compile error was caught": (lambda p: p.change(compilations=(*p.recording.compilations, failed())), 1, "CS206"),
    "graph break in own code": (lambda p: p.change(graph_breaks=(broken_at(),)), 1, "CS302"),
    "graph break too many": (
        lambda p: p.change(graph_breaks=(broken_at(file="diffusers/attn.py"), broken_at(file="diffusers/norm.py"))),
        1,
        "CS301",
    ),
    "operators went missing": (
        lambda p: p.change(compilations=tuple(replace(c, operators=5) for c in p.recording.compilations)),
        1,
        "CS501",
    ),
    "one guard more than was accepted": (lambda p: again(p, guards=42), 1, "CS502"),
    # the baseline
    "baseline is missing": (lambda p: setattr(p, "baseline", None), 2, "does not exist"),
    "baseline is empty": (lambda p: setattr(p, "baseline", ""), 2, "was cut short"),
    "baseline has an unknown key": (
        lambda p: setattr(p, "baseline", {"format": 1, "torch": {}, "ignore": ["CS1*"]}),
        2,
        "Unknown key 'ignore'",
    ),
    "baseline accepts what nobody can accept": (
        lambda p: setattr(p, "baseline", {"format": 1, "torch": {"2.13": {"CS101 x": 1}}}),
        2,
        "accepts a finding that cannot be accepted",
    ),
    "baseline is of another torch": (
        lambda p: setattr(p, "baseline", {"format": 1, "torch": {"2.12": ACCEPTED}}),
        1,
        "has entries only for torch 2.12; this is torch 2.13",
    ),
    "baseline is stale and strict": (
        lambda p: (
            again(p, guards=1),
            p.change(compilations=p.recording.compilations[::2]),
            p.arguments.append("--strict"),
        )[0],
        1,
        "CS601",
    ),
    # the settings
    "limit is misspelt": (
        lambda p: setattr(p, "settings", BUDGET.replace("max-guards", "max-gaurds")),
        2,
        "Did you mean max-guards",
    ),
    "limit is no number": (lambda p: setattr(p, "settings", BUDGET.replace("= 6", "= 'six'")), 2, "Expected `int"),
    "settings are no TOML": (lambda p: setattr(p, "settings", BUDGET + "max-compiles ="), 2, "is not valid TOML"),
}


def check_saved(project: Saved, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    project.write(folder)
    monkeypatch.chdir(folder)
    arguments = ["check", "run.json", "--baseline", "b.json", "--save", "judged.json", *project.arguments]
    ended = CliRunner().invoke(main, arguments, catch_exceptions=False)
    judged = folder / "judged.json"
    told = [finding.rule for finding in from_json(judged.read_bytes()).findings] if judged.exists() else []
    return ended.exit_code, " ".join((*told, ended.stderr))


def test_saved_project_passes_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, told = check_saved(passing(), tmp_path, monkeypatch)
    assert (code, "passed" in told, "1 finding accepted by b.json" in told) == (0, True, True)


@pytest.mark.parametrize("name", SAVED)
def test_fault_in_a_saved_project_turns_it_red(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, code, words = SAVED[name]
    project = passing()
    fault(project)
    seen, told = check_saved(project, tmp_path, monkeypatch)
    assert words in told
    assert seen == code


# --- a workload that is run ------------------------------------------------------------------------

MODEL = """
import torch
from torch import nn
from compilescope import Axis, workload


class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return x + self.norm(x)


@workload(axes=[Axis("tokens", [5, 7, 9])])
def model():
    blocks = [Block(nn.RMSNorm(8, elementwise_affine=False)), Block(nn.LayerNorm(8, elementwise_affine=False))]
    for block in blocks:
        block.compile(backend="eager", dynamic=True)

    def run(tokens):
        with torch.inference_mode():
            x = torch.linspace(-1, 1, 8 * tokens).reshape(1, tokens, 8)
            for block in blocks:
                x = block(x)
        return x

    return run
"""
SETTINGS = """
[tool.compilescope]
targets = ["Block.forward"]
parity = true
[tool.compilescope.budget]
max-recompiles = 0
max-recompiles-by-kind = {module_type = 1}
no-shape-recompile = true
max-graph-breaks = 0
min-operators = 2
max-relative-l2 = 1e-6
"""


def instead(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert old in text, old
        return text.replace(old, new)

    return edit


LIMITED = "import torch\ntorch._dynamo.config.recompile_limit = 2\n"
SUPPRESSED = "import torch\ntorch._dynamo.config.suppress_errors = True\ndef broken(*_): raise RuntimeError('no')\n"
WRONG = (
    "import torch\ndef wrong(graph, _):\n"
    "    return lambda *a: tuple(o * 1.01 if isinstance(o, torch.Tensor) else o for o in graph(*a))\n"
)
RUN: dict[str, tuple[Edit, int, str]] = {
    "nothing is compiled": (instead('block.compile(backend="eager", dynamic=True)', "pass"), 1, "CS101"),
    "target was renamed": (lambda text: text.replace("Block", "Layer"), 1, "CS102"),
    "target is called by nobody": (
        instead("for block in blocks:\n                x", "for block in ():\n                x"),
        1,
        "CS101",
    ),
    "target is inlined": (
        lambda text: instead("return run\n", "return torch.compile(run, backend='eager', dynamic=True)\n")(
            instead('block.compile(backend="eager", dynamic=True)', "pass")(text)
        ),
        1,
        "CS103",
    ),
    "shapes are static": (instead("dynamic=True", "dynamic=False"), 1, "CS203"),
    "dtype changes": (
        instead("8 * tokens)", "8 * tokens, dtype=(torch.float64 if tokens == 9 else torch.float32))"),
        1,
        "CS202",
    ),
    "branch on data": (
        instead("return x + self", "x = x + 1 if x.sum() > 99 else x\n        return x + self"),
        1,
        "CS301",
    ),
    "point raises": (instead("with torch.inf", "assert tokens != 7, 'seven'\n        with torch.inf"), 1, "CS112"),
    "every point raises": (instead("with torch.inf", "assert tokens < 0\n        with torch.inf"), 2, "CS110"),
    "factory raises": (instead("    blocks =", "    raise ValueError('no weights')\n    blocks ="), 2, "CS110"),
    "factory ends the program": (instead("    blocks =", "    raise SystemExit(0)\n    blocks ="), 2, "CS110"),
    "sweep has one value": (instead("[5, 7, 9]", "[5]"), 1, "CS107"),
    "recompile limit is met": (
        lambda text: LIMITED + instead("dynamic=True", "dynamic=False")(text),
        1,
        "CS204",
    ),
    "backend error is suppressed": (
        lambda text: SUPPRESSED + instead('backend="eager"', "backend=broken")(text),
        1,
        "CS401",
    ),
    "stance is eager": (
        instead(
            "with torch.inference_mode():", "with torch.inference_mode(), torch.compiler.set_stance('force_eager'):"
        ),
        1,
        "CS101",
    ),
    "stance is eager at one point": (
        instead(
            "with torch.inference_mode():",
            "with torch.inference_mode(), torch.compiler.set_stance('force_eager' if tokens == 9 else 'default'):",
        ),
        1,
        "CS401",
    ),
    "dispatch mode at one point": (
        lambda text: (
            "from contextlib import nullcontext as nothing\nfrom torch.utils.flop_counter import FlopCounterMode\n"
            + instead(
                "with torch.inference_mode():",
                "with torch.inference_mode(), FlopCounterMode(display=False) if tokens == 9 else nothing():",
            )(text)
        ),
        1,
        "CS401",
    ),
    "backend computes something else": (
        lambda text: WRONG + instead('backend="eager"', "backend=wrong")(text),
        1,
        "CS504",
    ),
    "backend computes NaN": (
        lambda text: WRONG.replace("1.01", "float('nan')") + instead('backend="eager"', "backend=wrong")(text),
        2,
        "CS112",
    ),
    "operators leave the graph": (instead("return x + self.norm(x)", "return x.clone()"), 1, "CS501"),
    "user interrupts": (
        instead("with torch.inf", "if tokens == 9: raise KeyboardInterrupt\n        with torch.inf"),
        130,
        "CS111",
    ),
    "workload is gone": (instead('@workload(axes=[Axis("tokens", [5, 7, 9])])\n', ""), 1, "CS101"),
    "file does not parse": (instead("def model():", "def model()"), 2, "is not valid Python"),
    "file does not import": (lambda text: "import no_such_module\n" + text, 2, "no_such_module"),
}


@pytest.fixture
def check_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_dynamo: None) -> Callable[..., tuple[int, str]]:
    """Write the model, check it in this process, and return the exit code and what was told."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> tuple[int, str]:
        name = f"{tmp_path.name}.py".replace("-", "_")
        (tmp_path / name).write_text(text)
        (tmp_path / "pyproject.toml").write_text(SETTINGS)
        source = f"{name}:model"
        ended = CliRunner().invoke(main, ["check", source, "-q", "--save", "judged.json"], catch_exceptions=False)
        sys.modules.pop(name.removesuffix(".py"), None)
        judged = tmp_path / "judged.json"
        told = [finding.rule for finding in from_json(judged.read_bytes()).findings] if judged.exists() else []
        return ended.exit_code, " ".join((*told, ended.stderr))

    return run


def test_workload_passes_as_it_is(check_run: Callable[..., tuple[int, str]]) -> None:
    assert check_run(MODEL) == (0, "")


@pytest.mark.parametrize("decorator", ["torch.no_grad()", "torch.inference_mode()"])
def test_forward_without_gradients_passes_as_well(decorator: str, check_run: Callable[..., tuple[int, str]]) -> None:
    edit = instead("    def forward(self, x):", f"    @{decorator}\n    def forward(self, x):")
    assert check_run(edit(MODEL)) == (0, "")


@pytest.mark.parametrize("name", RUN)
def test_fault_in_a_workload_turns_it_red(name: str, check_run: Callable[..., tuple[int, str]]) -> None:
    edit, code, words = RUN[name]
    seen, told = check_run(edit(MODEL))
    assert words in told
    assert seen == code


# --- a script, in a process of its own --------------------------------------------------------------

SCRIPT = """
import sys
import torch

compiled = torch.compile(lambda x: x + 1, backend="eager")
compiled(torch.ones(3))
"""
LATER = "\ndef later():\n    compiled(torch.ones(4))\n"
THREAD = "import os, threading\nthread = threading.Thread(target=os._exit, args=(0,))\nthread.start()\nthread.join()\n"


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (str, 0),
        (instead("import sys\n", "import sys\nsys.exit(0)\n"), 1),
        (instead("import sys\n", "import os\nos._exit(0)\n"), 1),
        (instead("import sys\n", THREAD), 2),
        (lambda text: f"{text}{LATER}import threading\nthreading.Timer(0.3, later).start()\n", 1),
        (lambda text: f"{text}{LATER}import atexit\natexit.register(later)\n", 1),
    ],
    ids=[
        "passes as it is",
        "ends before it compiles",
        "ends its process",
        "ends its process from a thread",
        "recompiles in a thread that outlives it",
        "recompiles at its exit",
    ],
)
def test_script_in_a_process_of_its_own(edit: Edit, code: int, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(edit(SCRIPT))
    ended = subprocess.run(
        [sys.executable, "-m", "compilescope", "check", "script.py", "--no-shape-recompile"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == code, ended.stderr
