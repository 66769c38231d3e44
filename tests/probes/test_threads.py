"""Threads that compile the same code: what each of them waited for, and what failed for it."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import compilescope

if TYPE_CHECKING:
    from collections.abc import Callable

    from compilescope.record import Recording

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def scaler() -> Callable[..., Tensor]:
    """Return a compiled function with a code object of its own."""

    def scale(image: Tensor, factor: float = 2.0) -> Tensor:
        return image * factor

    return torch.compile(scale, backend="eager", dynamic=False)


def recorded(program: Callable[[], object]) -> Recording:
    with compilescope.observe(count_runs=True) as scope:
        program()
    return scope.recording


def stands_in(thread: threading.Thread, file: str) -> bool:
    """Whether a thread executes a function of ``file``, or waits in it."""
    frame = sys._current_frames().get(thread.ident or 0)
    # Of None the stack would be our own.
    frames = () if frame is None else traceback.walk_stack(frame)
    return any(each.f_code.co_filename.endswith(file) for each, _ in frames)


def test_entry_that_another_thread_compiled_meanwhile_fails_no_guard() -> None:
    entered = threading.Event()
    threads: list[threading.Thread] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        # The first thread holds the compile lock until the second has missed the cache and stands before the lock.
        if not entered.is_set():
            entered.set()
            for _ in range(3000):
                if stands_in(threads[0], "convert_frame.py"):
                    break
                threading.Event().wait(0.01)
        return graph.forward

    compiled = torch.compile(lambda image: image * 2, backend=backend, dynamic=False)

    def second() -> None:
        entered.wait(timeout=30)
        compiled(torch.ones(3))

    def program() -> None:
        other = threading.Thread(target=second)
        threads.append(other)
        other.start()
        compiled(torch.ones(3))
        other.join()

    recording = recorded(program)
    first, duplicate = recording.compiled
    assert duplicate.recompile is not None
    (entry,) = duplicate.recompile.entries
    assert (entry.id, entry.confirmed) == (first.id, True)
    assert [failure.guard_type for failure in entry.failing] == ["CONCURRENT"]
    assert recording.fallbacks == ()


def test_entries_that_threads_compile_in_turn_fail_their_guards() -> None:
    compiled = scaler()

    def program() -> None:
        for size in (3, 4):
            thread = threading.Thread(target=compiled, args=(torch.ones(size),))
            thread.start()
            thread.join()

    (compilation,) = recorded(program).recompiles
    assert compilation.recompile is not None
    (entry,) = compilation.recompile.entries
    assert [(f.source, f.expected, f.actual) for f in entry.failing] == [("image.size()[0]", "3", "4")]
