"""Runs a program: whether torch compiles again is counted by a backend of our own, without the tool."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

import compilescope

from .judging import tell
from .programs import MODULE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compilescope.record import Recording

    from .programs import Program


class Counter:
    """A backend that counts the graphs that it is given, and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a program.

    Attributes:
        recording: of the tool.
        recompiled: whether torch compiled again for the second call.
        alone: names of the changed parts each of which by itself makes torch compile again.
        reason: what ``TORCH_LOGS=recompiles`` says of the recompile.
    """

    recording: Recording
    recompiled: bool
    alone: frozenset[str]
    reason: str

    def told(self) -> str:
        """Write what torch did and what the tool reports, as comments."""
        recompiles = [c.recompile for c in self.recording.recompiles if c.recompile is not None]
        causes = [tell(cause) for recompile in recompiles for cause in recompile.causes]
        lines = [
            f"by itself, torch compiles again for: {', '.join(sorted(self.alone)) or 'none'}",
            "torch's own reason:",
            *self.reason.splitlines(),
            "reported:",
            *(f"  {cause}" for cause in causes),
        ]
        return "\n# ".join(lines)


def run(program: Program, folder: Path) -> Outcome:
    """Run a program under the tool, and without it once for each of its changes."""
    file = folder / f"{MODULE}.py"
    file.write_text(program.text(), encoding="utf-8")
    with compilescope.observe() as scope:
        recompiled = _recompiles(program, file, program.changed)
    reason = _last_reason() if recompiled else "none"
    alone = program.changed if recompiled else frozenset()
    if len(program.changed) > 1:
        alone = frozenset(name for name in program.changed if _recompiles(program, file, frozenset({name})))
    return Outcome(scope.recording, recompiled, alone, reason)


def _last_reason() -> str:
    return str(torch._dynamo.utils.get_compilation_metrics()[-1].recompile_reason)


def _recompiles(program: Program, file: Path, changed: frozenset[str]) -> bool:
    """Whether torch compiles again when these parts change, counted from a fresh compile."""
    torch.compiler.reset()
    module = ModuleType(MODULE)
    module.__file__ = str(file)
    sys.modules[MODULE] = module
    try:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), vars(module))  # noqa: S102 (our own text)
        counter = Counter()
        compiling = partial(torch.compile, backend=counter, dynamic=program.dynamic, fullgraph=True)
        module.run(compiling, frozenset())
        assert counter.graphs == 1, "the first call is not one graph"
        module.run(compiling, frozenset())
        assert counter.graphs == 1, "an equal world is not served"
        module.run(compiling, changed)
        return counter.graphs == 2
    finally:
        del sys.modules[MODULE]
        torch.compiler.reset()
