"""What observing costs: a served call, a first compilation, and the explanation of a recompile.

    python benchmarks/costs.py [--json FILE]

Method. Every figure is a ratio or a time within this one run. Arms are alternated (A B B A) so that drift
hits both; the median of each arm is taken over all rounds. Nothing else should run on the machine.

* served call: a compiled function of one addition, called in batches; with and without ``observe()``, and with
  ``observe(count_runs=True)``, which is the only one that puts something on this path.
* first compilation: FLUX's two block classes (tiny widths, 404 and 238 guards), compiled from an empty cache.
* whole program: CPU time of 25 compilations of about 1,000 guards (five functions, each at five lengths), the
  recording and the text report included.
* explanation: a FluxTransformerBlock with eight entries of 404 guards each, all of them missed by a
  ninth input, the proof by torch included.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import FunctionType

import torch
from torch import nn

import compilescope
from compilescope.capture import _torch, accepted_elsewhere, compiled_for, guard_tree, guards
from compilescope.capture.compile_call import CompileCall
from compilescope.render.registry import render
from models.diffusers_dits import DITS, Size

ROUNDS = 12
CALLS = 4000


def abba(plain: Callable[[], float], observed: Callable[[], float], rounds: int) -> tuple[float, float]:
    """Return the medians of two timed arms, alternated."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for arm in (0, 1, 1, 0):
            times[arm].append((plain, observed)[arm]())
    return statistics.median(times[0]), statistics.median(times[1])


def served_call(observing: Callable[[], AbstractContextManager[object]]) -> tuple[float, float]:
    """Return seconds a call without and with ``observing``."""
    torch.compiler.reset()
    function, x = torch.compile(lambda x: x + 1, backend="eager"), torch.ones(4)
    function(x)

    def arm(context: AbstractContextManager[object]) -> float:
        with context:
            function(x)
            start = time.perf_counter()
            for _ in range(CALLS):
                function(x)
            return (time.perf_counter() - start) / CALLS

    return abba(lambda: arm(nullcontext()), lambda: arm(observing()), ROUNDS)


def first_compilation() -> tuple[float, float]:
    """Return seconds for the first forward of a tiny FLUX from an empty cache, without and with ``observe()``."""
    flux = DITS["flux"]
    model = flux.build(num_layers=1, num_single_layers=1)
    model.compile_repeated_blocks(backend="eager", fullgraph=True, dynamic=True)

    def arm(context: AbstractContextManager[object]) -> float:
        torch.compiler.reset()
        with context:
            start = time.perf_counter()
            flux.call(model, Size(3, 7, 11))
            return time.perf_counter() - start

    arm(nullcontext())
    return abba(lambda: arm(nullcontext()), lambda: arm(compilescope.observe()), ROUNDS // 2)


class Stack(nn.Module):
    """Layers enough that one entry holds about 1,000 guards."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 1, 8, batch_first=True) for _ in range(28))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, length, 8) to the same shape."""
        for layer in self.layers:
            x = x + layer.linear2(layer.dropout(layer.linear1(layer.norm1(x))))
        return x


def stack_of_its_own(name: str) -> nn.Module:
    """Return a stack whose forward is a code object of its own, and so has a cache of its own."""
    forward = FunctionType(Stack.forward.__code__.replace(co_name=name), globals(), name)
    return type(name, (Stack,), {"forward": forward})()


def whole_program() -> tuple[int, int, float, float]:
    """Return compilations, guards of an entry, and CPU seconds without and with a report of all of them."""
    stacks = [stack_of_its_own(f"forward_{number}") for number in range(5)]
    recordings = []

    def program() -> None:
        torch.compiler.reset()
        for stack in stacks:
            compiled = torch.compile(stack, backend="eager", dynamic=False)
            for length in range(3, 8):
                compiled(torch.ones(2, length, 8))

    def plain() -> float:
        start = time.process_time()
        program()
        return time.process_time() - start

    def reported() -> float:
        start = time.process_time()
        with compilescope.observe(count_runs=True) as scope:
            program()
        recordings.append(scope.recording)
        render(recordings[-1], "text")
        return time.process_time() - start

    plain()
    times = abba(plain, reported, ROUNDS // 4)
    made = recordings[-1].compiled
    return len(made), made[0].guards or 0, *times


@contextmanager
def last_call() -> Iterator[list[CompileCall]]:
    """Keep the arguments of each call of Dynamo's compile function."""
    calls: list[CompileCall] = []
    original = _torch.read_call

    def keep(converter: Mapping[str, object]) -> CompileCall:
        calls.append(original(converter))
        return calls[-1]

    _torch.read_call = keep
    try:
        with compilescope.observe():
            yield calls
    finally:
        _torch.read_call = original


def explanation() -> tuple[int, int, float, float]:
    """Return entries, guards an entry, and seconds to examine all of them: the first time, and the median after."""
    torch.compiler.reset()
    flux = DITS["flux"]
    model = flux.build(num_layers=1, num_single_layers=1)
    model.compile_repeated_blocks(backend="eager", fullgraph=True, dynamic=False)
    block = "FluxTransformerBlock.forward"
    with last_call() as calls, torch._dynamo.config.patch(recompile_limit=9):  # noqa: SLF001 (nine entries are wanted)
        for text_len in range(11, 20):
            flux.call(model, Size(3, 7, text_len))
    call = next(c for c in reversed(calls) if c.code.co_qualname == block)
    known = [compiled_for.note(entry.manager, call.locals) for entry in call.entries]
    times = []
    # As the model calls its blocks: elsewhere the guard on the grad mode refuses first, and torch is not asked more.
    with torch.no_grad():
        for _ in range(ROUNDS):
            start = time.perf_counter()
            examined = [guards.examine(entry, call, note) for entry, note in zip(call.entries, known, strict=True)]
            misses = accepted_elsewhere.marked(examined)
            times.append(time.perf_counter() - start)
    if not all(miss.confirmed for miss in misses):
        msg = f"not confirmed by torch: {[miss.unconfirmed for miss in misses]}"
        raise RuntimeError(msg)
    count = guard_tree.leaf_count(call.entries[0].manager)
    return len(call.entries), count, times[0], statistics.median(times[1:])


def measure() -> dict[str, object]:
    """Return every figure, with where it was taken."""
    plain, observed = served_call(compilescope.observe)
    plain_counted, counted = served_call(lambda: compilescope.observe(count_runs=True))
    bare, recorded = first_compilation()
    compilations, held, cpu, cpu_reported = whole_program()
    entries, leaves, cold, warm = explanation()
    return {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "served call, observe(): ratio": observed / plain,
        "served call, observe(count_runs=True): added microseconds": (counted - plain_counted) * 1e6,
        "first compilation, observe(): ratio": recorded / bare,
        "whole program: compilations": compilations,
        "whole program: guards an entry": held,
        "whole program, report: ratio of CPU time": cpu_reported / cpu,
        "explanation: entries": entries,
        "explanation: guards an entry": leaves,
        "explanation, first: milliseconds": cold * 1e3,
        "explanation, later: milliseconds": warm * 1e3,
    }


def main() -> None:
    """Measure, print, and keep the figures where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    where = parser.parse_args().json
    figures = measure()
    for name, value in figures.items():
        print(f"{name:62} {value:.3f}" if isinstance(value, float) else f"{name:62} {value}")
    if where is not None:
        where.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
