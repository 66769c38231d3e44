"""Regions, threads and settings that share one code object, or keep it apart."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from ..expectation import Cause, expects

if TYPE_CHECKING:
    from collections.abc import Callable


def takes(option: str) -> bool:
    return option in inspect.signature(torch.compile).parameters


def merge(left: Tensor, right: Tensor) -> Tensor:
    return left - right


@expects(
    compiles={"merge": 2},
    recompiles=(
        Cause(
            code="merge",
            kind="size",
            source="left.size()[0]",
            also=("right.size()[0]",),
            expected="3",
            actual="4",
            shape_driven=True,
        ),
    ),
    at_limit=(
        Cause(
            code="merge",
            kind="size",
            source="left.size()[0]",
            also=("right.size()[0]",),
            expected="4",
            actual="5",
            shape_driven=True,
        ),
    ),
    fallbacks={"recompile_limit": 8},
)
def limit_of_one_region_stops_the_other() -> None:
    if not takes("recompile_limit"):
        pytest.skip("this torch has no recompile limit for a region")
    narrow = torch.compile(merge, backend="eager", dynamic=False, recompile_limit=2)
    wide = torch.compile(merge, backend="eager", dynamic=False, recompile_limit=5)
    for compiled, lengths in ((narrow, range(3, 8)), (wide, range(13, 18))):
        for length in lengths:
            compiled(torch.ones(length), torch.ones(length))


def standardise(signal: Tensor) -> Tensor:
    return signal - signal.mean()


@expects(
    compiles={"standardise": 6},
    recompiles=(
        Cause(
            code="standardise",
            kind="size",
            source="signal.size()[0]",
            expected=("3", "5", "3", "5"),
            actual=("5", "7", "5", "7"),
            shape_driven=True,
            count=4,
        ),
    ),
)
def isolated_regions_keep_entries_of_their_own() -> None:
    if not takes("isolate_recompiles"):
        pytest.skip("this torch has no isolated regions")
    regions = [torch.compile(standardise, backend="eager", dynamic=False, isolate_recompiles=True) for _ in range(2)]
    for region in regions:
        for length in (3, 5, 7):
            region(torch.ones(length))
    for region in regions:
        region(torch.ones(7))


def cube(signal: Tensor) -> Tensor:
    return signal**3


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@expects(
    compiles={"cube": 8},
    recompiles=(
        Cause(
            code="cube",
            kind="size",
            source="signal.size()[0]",
            expected=("3", "5", "7", "9", "11", "4", "6"),
            actual=("5", "7", "9", "11", "4", "6", "8"),
            shape_driven=True,
            count=7,
        ),
    ),
    at_limit=(
        Cause(code="cube", kind="size", source="signal.size()[0]", expected="8", actual="10", shape_driven=True),
    ),
    fallbacks={"recompile_limit": 2},
)
def threads_take_turns_at_static_sizes() -> None:
    compiled = torch.compile(cube, backend="eager", dynamic=False)
    for first in (3, 4):
        in_a_thread(lambda first=first: [compiled(torch.ones(first + 2 * step)) for step in range(5)])


def fourth_power(signal: Tensor) -> Tensor:
    return signal**4


def waits_for_the_compiler(thread: threading.Thread) -> bool:
    """Whether no cache entry served the call of that thread: it has come to Dynamo, which compiles one at a time."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and not frame.f_code.co_filename.endswith("convert_frame.py"):
        frame = frame.f_back
    return frame is not None


@expects(
    compiles={"fourth_power": 3},
    recompiles=(
        Cause(
            code="fourth_power",
            kind="size",
            source="signal.size()[0]",
            expected="4",
            actual="6",
            shape_driven=True,
        ),
        Cause(code="fourth_power", kind="concurrent", source=None, shape_driven=None),
    ),
)
def another_thread_compiles_the_same_meanwhile() -> None:
    twins: list[threading.Thread] = []

    def start_a_twin(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        if len(twins) == 1:  # the first twin is compiling, and the backend runs for it
            twins.append(threading.Thread(target=compiled, args=(torch.ones(6),)))
            twins[1].start()
            deadline = time.monotonic() + 20
            while not waits_for_the_compiler(twins[1]) and time.monotonic() < deadline:
                time.sleep(0.01)
        return graph

    compiled = torch.compile(fourth_power, backend=start_a_twin, dynamic=False)
    compiled(torch.ones(4))
    twins.append(threading.Thread(target=compiled, args=(torch.ones(6),)))
    twins[0].start()
    for index in range(2):
        twins[index].join()


FLAG = "COMPILESCOPE_CORPUS_FLAG"


def flagged(signal: Tensor) -> Tensor:
    return signal * 3 if os.getenv(FLAG) == "on" else signal / 3


@expects(compiles={"flagged": 1}, matches_eager=False)
def environment_is_read_while_tracing() -> bool:
    compiled = torch.compile(flagged, backend="eager")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FLAG, "on")
        compiled(torch.ones(2))
        patch.setenv(FLAG, "off")
        return torch.equal(compiled(torch.ones(2)), flagged(torch.ones(2)))


GAIN = 3


def amplified(signal: Tensor) -> Tensor:
    return signal * GAIN


@expects(
    compiles={"amplified": 2},
    recompiles=(
        Cause(code="amplified", kind="size", source="signal.size()[0]", expected="4", actual="5", shape_driven=True),
    ),
    matches_eager=False,
)
def guards_on_globals_are_dropped() -> bool:
    global GAIN  # noqa: PLW0603 (that is the point)
    options = {"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe}
    compiled = torch.compile(amplified, backend="eager", options=options)
    GAIN = 3
    compiled(torch.ones(4))
    GAIN = 6
    equal = torch.equal(compiled(torch.ones(4)), amplified(torch.ones(4)))
    compiled(torch.ones(5))
    return equal
