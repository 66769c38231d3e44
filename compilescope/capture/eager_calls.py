"""Counts calls of compiled callables and runs of their graphs: the difference ran eagerly.

This is the only part on the path of every compiled call, so it is opt-in. It costs some
microseconds a call; ``benchmarks/costs.py`` measures how many.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compilescope.capture import _torch, _torch_seams
from compilescope.capture.call_sizes import CallSizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType

    from compilescope.capture.tap import Attempt
    from compilescope.record import Scalar

ORDINARY = "ordinary"
STANCE = "stance "
DISPATCH_MODE = "dispatch mode"
_SERVED_BY_NONE: Final = (f"{STANCE}force_eager", DISPATCH_MODE)


@dataclass(slots=True)
class _Slot:
    """The counts of one code object, by the condition under which it was called.

    A condition starts with its zeros before it is used, so that counting is a single ``+= 1`` on an
    item: the interpreter does not switch threads within it.
    """

    code: CodeType
    condition: str = ORDINARY
    calls: dict[str, int] = field(default_factory=lambda: {ORDINARY: 0})
    runs: dict[str, int] = field(default_factory=lambda: {ORDINARY: 0})
    raised: dict[str, int] = field(default_factory=lambda: {ORDINARY: 0})
    has_graphless_entry: bool = False
    sizes: CallSizes = field(default_factory=CallSizes)

    def enter(self, condition: str) -> None:
        """Count under ``condition`` from now on."""
        if condition not in self.calls:
            self.runs[condition] = self.raised[condition] = self.calls[condition] = 0
        self.condition = condition


@dataclass(frozen=True, slots=True)
class Eager:
    """Calls of one compiled callable's code that ran no graph of it, under one condition, and the sweep points."""

    code: CodeType
    condition: str
    calls: int
    points: tuple[Mapping[str, Scalar], ...] = ()


class _CountedCall:
    """The ``__call__`` of a counted graph: counts as it is looked up, and is off the stack when the graph runs."""

    def __get__(self, counted: _CountedGraph, owner: type) -> Callable[..., Any]:
        if counted.counter.active:
            counted.slot.runs[counted.slot.condition] += 1
        return counted.graph


class _CountedGraph:
    """A compiled graph that counts its runs. Replaces the graph under its global name."""

    __call__ = _CountedCall()

    def __init__(self, graph: Callable[..., Any], counter: RunCounter, slot: _Slot) -> None:
        self.graph = graph
        self.counter = counter
        self.slot = slot

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (the graph's own)
        return getattr(self.graph, name)


class _CallOfCallback:
    """The ``__call__`` of what a call of a compiled callable passes through; off the stack when torch's own runs."""

    def __get__(self, counted: _CountedCallback, owner: type) -> Callable[..., Any]:
        # The caller is compile_wrapper, whose free variable fn is what was compiled.
        caller = sys._getframe(1)  # noqa: SLF001 (the only way to see the caller)
        if counted.counter.active and caller.f_code.co_name == "compile_wrapper":
            counted.counter.note_call(caller.f_locals)
        return counted.original


class _CountedCallback:
    """Counts calls where torch chooses the callback for one. Replaces torch's function under its name."""

    __call__ = _CallOfCallback()

    def __init__(self, original: Callable[..., Any], counter: RunCounter) -> None:
        self.original = original
        self.counter = counter


class RunCounter:
    """Counts calls and graph runs by code object while installed and ``active``."""

    def __init__(self, *, notes_sizes: bool = False) -> None:
        self.active = False
        # Only a target says whether its calls varied, so a run without targets does not pay for it.
        self._notes_sizes = notes_sizes
        # By identity: two identical bodies are equal, and hashing one is slow. The slot keeps it alive.
        self._slots: dict[int, _Slot] = {}
        self._called: dict[int, _Slot] = {}
        self._passed_over: dict[int, tuple[CodeType, bool]] = {}
        self._counted: list[tuple[dict[str, Any], str, _CountedGraph]] = []
        self._eager_at: dict[tuple[int, str], list[Mapping[str, Scalar]]] = {}
        self._installed: _CountedCallback | None = None

    def install(self) -> None:
        """Start counting."""
        # A graph is called from a frame that Dynamo watches, and so is what counts its runs.
        _torch_seams.never_compile(_CountedCall.__get__)
        with _torch_seams.INSTALL_LOCK:
            self._installed = _CountedCallback(_torch_seams.get_callback_filter(), self)
            self.active = True
            _torch_seams.set_callback_filter(self._installed)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Do not count the calls inside: they are the tool's own."""
        before, self.active = self.active, False
        try:
            yield
        finally:
            self.active = before

    @contextlib.contextmanager
    def at(self, point: Mapping[str, Scalar]) -> Iterator[None]:
        """Stamp the calls inside that run no graph with a sweep point."""
        before = self._left()
        try:
            yield
        finally:
            for key, left in self._left().items():
                if left > before.get(key, 0):
                    self._eager_at.setdefault(key, []).append(point)

    def _left(self) -> dict[tuple[int, str], int]:
        """Return how many calls ran no graph, by the identity of their code and the condition."""
        # A copy: another thread may be calling something for the first time.
        return {
            (id(slot.code), condition): calls - slot.runs[condition] - slot.raised[condition]
            for slot in tuple(self._called.values())
            for condition, calls in tuple(slot.calls.items())
        }

    def remove(self) -> None:
        """Stop counting, and restore everything that is still ours."""
        with _torch_seams.INSTALL_LOCK:
            self.active = False
            if self._installed is not None and _torch_seams.get_callback_filter() is self._installed:
                _torch_seams.set_callback_filter(self._installed.original)
            for namespace, name, counted in self._counted:
                if namespace.get(name) is counted:
                    namespace[name] = counted.graph
            self._counted.clear()

    def note_call(self, wrapper: Mapping[str, Any]) -> None:
        """Count a call of what a compiled callable was compiled from, given the locals of torch's wrapper around it."""
        called = wrapper["fn"]
        function: Any = _torch.compiled_function(called, self._is_passed_over)
        code = getattr(function, "__code__", None)
        if code is None:
            return
        slot = self._called.get(id(code))
        if slot is None:
            slot = self._called[id(code)] = self._slot(code)
            self._count_older_graphs(slot, function.__globals__)
        condition = _condition()
        if condition != slot.condition:
            slot.enter(condition)
        slot.calls[condition] += 1
        if self._notes_sizes:
            slot.sizes.note(called, wrapper["args"], wrapper["kwargs"])

    def sizes_of_calls(self) -> dict[int, CallSizes]:
        """Return what is known about the sizes that each code object was called with, by its identity."""
        return {identity: slot.sizes for identity, slot in self._called.items()}

    def _slot(self, code: CodeType) -> _Slot:
        return self._slots.setdefault(id(code), _Slot(code))

    def _is_passed_over(self, code: CodeType) -> bool:
        known = self._passed_over.get(id(code))
        if known is None:
            known = self._passed_over[id(code)] = (code, _torch.is_passed_over(code))
        return known[1]

    def _count_older_graphs(self, slot: _Slot, namespace: dict[str, Any]) -> None:
        for name in _torch.graphs_of(slot.code):
            self._count_graph(slot, name, namespace)

    def on_attempt(self, attempt: Attempt) -> None:
        """Count the runs of the graph that was compiled, and the calls that raise to the user."""
        slot = self._slot(attempt.code)
        if attempt.outcome == "compiled":
            self._count_graph(slot, attempt.graph, attempt.f_globals)
        elif attempt.propagates:
            slot.raised[slot.condition] += 1

    def _count_graph(self, slot: _Slot, name: str | None, namespace: dict[str, Any] | None) -> None:
        graph = None if name is None or namespace is None else namespace.get(name)
        if graph is None or name is None or namespace is None:
            slot.has_graphless_entry = True
            return
        counted = _CountedGraph(graph, self, slot)
        namespace[name] = counted
        self._counted.append((namespace, name, counted))

    def served(self) -> int:
        """Return how often a graph ran."""
        return sum(sum(slot.runs.values()) for slot in self._slots.values())

    def called(self) -> tuple[CodeType, ...]:
        """Return the code objects whose compiled callables were called."""
        return tuple(slot.code for slot in self._called.values())

    def eager(self) -> list[Eager]:
        """Return the calls that ran no graph.

        Left out are code objects with an entry that holds no graph of its own (tracing stopped before
        its first operator): whether such an entry served a call cannot be seen from outside, except where no entry
        serves any.
        """
        return [
            Eager(slot.code, condition, left, tuple(self._eager_at.get((identity, condition), ())))
            for (identity, condition), left in self._left().items()
            if (slot := self._called[identity]) and left > 0
            if not slot.has_graphless_entry or condition in _SERVED_BY_NONE
        ]


def _condition() -> str:
    if _torch.has_dispatch_mode():
        return DISPATCH_MODE
    stance = _torch.stance()
    return ORDINARY if stance == "default" else STANCE + stance
