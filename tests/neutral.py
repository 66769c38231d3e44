"""What a program does under Dynamo, as seen without compilescope: held once without and once with it watching."""

from __future__ import annotations

import contextlib
import logging
import random
import re
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo import convert_frame, eval_frame, utils
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.utils import counters

import compilescope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ADDRESS = re.compile(r"0x[0-9a-f]+|\d{12,}")
_NOTED = (
    "compile_id",
    "co_name",
    "cache_size",
    "accumulated_cache_size",
    "guard_count",
    "shape_env_guard_count",
    "graph_op_count",
    "graph_node_count",
    "graph_input_count",
    "fail_type",
    "fail_reason",
    "fail_user_frame_filename",
    "fail_user_frame_lineno",
    "recompile_reason",
    "restart_reasons",
    "has_guarded_code",
)
_NUMBERED = re.compile(r"__compiled_fn_\d+_\w+|<eval_with_key>\.\d+")


@dataclass
class Trail:
    """What Dynamo was asked and did, in order.

    Attributes:
        compiles: each call of ``_compile``: the code object and how the call ended.
        graphs: the code of each graph that a backend was given.
        runs: the numbers of the graphs, in the order of their runs.
        stacks: who stood on Python's stack when each compilation began, as torch noted it.
        metrics: what else torch noted of each: guards, operators, rounds of tracing, why it failed.
        counters: Dynamo's own.
        result: what the program returned or raised, the frames of its traceback included.
    """

    compiles: list[tuple[str, str]] = field(default_factory=list)
    graphs: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    stacks: list[object] = field(default_factory=list)
    metrics: list[object] = field(default_factory=list)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    result: object = None


def trail(program: Callable[[], object], *, observed: bool) -> Trail:
    """Run ``program`` from an empty cache, and return what Dynamo did."""
    torch.compiler.reset()
    counters.clear()
    utils.clear_compilation_metrics()
    # The stances that compile later remember the inputs of each function for as long as the process lives.
    eval_frame._EXAMPLE_INPUTS = None
    # A logger remembers that it is not enabled, and then calls less.
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
    torch.manual_seed(0)
    random.seed(0)
    found = Trail()
    watching = compilescope.observe(count_runs=True) if observed else contextlib.nullcontext()
    with _compile_calls(found), _graphs(found), watching:
        try:
            found.result = plain(program())
        except Exception as error:  # noqa: BLE001 (what a program raises is what is compared)
            frames = [(step.filename, step.name, step.lineno) for step in traceback.extract_tb(error.__traceback__)]
            found.result = (type(error).__name__, plain(str(error)), frames[1:])
    noted = utils.get_compilation_metrics()
    found.stacks = [plain(getattr(one, "stack_trace", None)) for one in noted]
    found.metrics = [[plain(getattr(one, name, None)) for name in _NOTED] for one in noted]
    found.counters = {plain(name): {plain(k): v for k, v in values.items()} for name, values in counters.items()}
    return found


def plain(value: object) -> Any:
    """Return a value that can be compared: tensors as lists, text without addresses and numbers of graphs."""
    if isinstance(value, torch.Tensor):
        shown = value.detach()
        return (str(value.dtype), tuple(value.shape), str(shown) if value.is_meta else shown.reshape(-1).tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(one) for one in value)
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items()}
    return value if isinstance(value, int | float | None) else _NUMBERED.sub("fn", _ADDRESS.sub("address", str(value)))


@contextlib.contextmanager
def _compile_calls(found: Trail) -> Iterator[None]:
    original = convert_frame._compile

    def compile_(code: Any, *args: Any, **kwargs: Any) -> Any:
        name = f"{code.co_filename}:{code.co_qualname}"
        number = len(found.compiles)
        found.compiles.append((name, "open"))
        try:
            result = original(code, *args, **kwargs)
        except BaseException as error:
            found.compiles[number] = (name, type(error).__name__)
            raise
        found.compiles[number] = (name, "skipped" if result.guarded_code is None else "compiled")
        return result

    convert_frame._compile = compile_
    try:
        yield
    finally:
        convert_frame._compile = original


@contextlib.contextmanager
def _graphs(found: Trail) -> Iterator[None]:
    original = OutputGraph.call_user_compiler

    def call_user_compiler(output: OutputGraph, graph: torch.fx.GraphModule, *args: Any) -> Any:
        number = len(found.graphs)
        found.graphs.append(f"{graph.code}\n{[plain(str(node.target)) for node in graph.graph.nodes]}")
        compiled = original(output, graph, *args)

        def counted(*inputs: Any) -> Any:
            found.runs.append(number)
            return compiled(*inputs)

        return counted

    OutputGraph.call_user_compiler = call_user_compiler
    try:
        yield
    finally:
        OutputGraph.call_user_compiler = original
