"""Counts calls of compiled callables and runs of their graphs: what is left over ran eager.

This is the only part that sits on the path of every compiled call, so it is asked for. It costs about
a microsecond a call.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compilescope.capture import _torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

    from compilescope.capture.tap import Attempt

ORDINARY = "ordinary"
STANCE = "stance "
DISPATCH_MODE = "dispatch mode"


def _from_one() -> Iterator[int]:
    return itertools.count(1)


@dataclass(slots=True)
class _Tally:
    """Thread-safe counts: ``next`` on an iterator is one step of the interpreter.

    Keys hold code objects by identity: two bodies that read alike are equal, and hashing one is slow.
    """

    _counts: defaultdict[tuple[int, str], Iterator[int]] = field(default_factory=lambda: defaultdict(_from_one))
    totals: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, code: CodeType, condition: str) -> None:
        key = (id(code), condition)
        self.totals[key] = next(self._counts[key])


@dataclass(frozen=True, slots=True)
class Eager:
    """Calls of one compiled callable's code that ran no graph of it, under one condition."""

    code: CodeType
    condition: str
    calls: int


class _CountedGraph:
    """A compiled graph that counts its runs. Stands under the graph's global name."""

    def __init__(self, graph: Callable[..., Any], counter: RunCounter, code: CodeType) -> None:
        self.graph = graph
        self._counter = counter
        self._code = code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (the graph's own)
        self._counter.note_run(self._code)
        return self.graph(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (the graph's own)
        return getattr(self.graph, name)


class RunCounter:
    """Counts calls and graph runs by code object while installed."""

    def __init__(self) -> None:
        self._calls = _Tally()
        self._runs = _Tally()
        self._raised = _Tally()
        self._codes: dict[int, CodeType] = {}
        self._condition: dict[int, str] = {}
        self._graphless: set[int] = set()
        self._counted: list[tuple[dict[str, Any], str, _CountedGraph]] = []
        self._original: Callable[..., Any] | None = None
        self._installed: Callable[..., Any] | None = None
        self._active = False

    def install(self) -> None:
        """Start to count."""
        # A graph is called from a frame that Dynamo watches, and so is what counts it.
        _torch.never_compile(_CountedGraph.__call__, RunCounter.note_run, _Tally.add, _from_one)
        with _torch.INSTALL_LOCK:
            original = _torch.get_callback_filter()

            def count(callback: object) -> object:
                # The frame above is compile_wrapper, whose free variable fn is what was compiled.
                if self._active:
                    self._note_call(sys._getframe(1))  # noqa: SLF001 (the only way to see the caller)
                return original(callback)

            self._original, self._installed, self._active = original, count, True
            _torch.set_callback_filter(count)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Leave what is called inside out of the counts: it is a call of the tool's own."""
        before, self._active = self._active, False
        try:
            yield
        finally:
            self._active = before

    def remove(self) -> None:
        """Stop to count, and put everything back that is still ours."""
        with _torch.INSTALL_LOCK:
            self._active = False
            if self._original is not None and _torch.get_callback_filter() is self._installed:
                _torch.set_callback_filter(self._original)
            for namespace, name, counted in self._counted:
                if namespace.get(name) is counted:
                    namespace[name] = counted.graph
            self._counted.clear()

    def _note_call(self, caller: Any) -> None:  # noqa: ANN401 (a frame)
        if caller.f_code.co_name != "compile_wrapper":
            return
        function = caller.f_locals["fn"]
        code = _torch.target_code(function)
        if code is None:
            return
        if id(code) not in self._codes:
            self._codes[id(code)] = code
            self._count_older_graphs(code, function)
        condition = _condition()
        self._condition[id(code)] = condition
        self._calls.add(code, condition)

    def _count_older_graphs(self, code: CodeType, function: object) -> None:
        namespace = _torch.globals_of(function)
        for name in _torch.graphs_of(code):
            self._count_graph(code, name, namespace)

    def on_attempt(self, attempt: Attempt) -> None:
        """Count the runs of the graph that was compiled, and the calls that end in the user's face."""
        if attempt.outcome == "compiled":
            self._count_graph(attempt.code, attempt.graph, attempt.f_globals)
        elif attempt.propagates:
            self._raised.add(attempt.code, self._condition.get(id(attempt.code), ORDINARY))

    def _count_graph(self, code: CodeType, name: str | None, namespace: dict[str, Any] | None) -> None:
        graph = None if name is None or namespace is None else namespace.get(name)
        if graph is None or name is None or namespace is None:
            self._graphless.add(id(code))
            return
        counted = _CountedGraph(graph, self, code)
        namespace[name] = counted
        self._counted.append((namespace, name, counted))

    def note_run(self, code: CodeType) -> None:
        """Count a run of a graph of ``code``."""
        if self._active:
            self._runs.add(code, self._condition.get(id(code), ORDINARY))

    def called(self) -> tuple[CodeType, ...]:
        """Return the code objects whose compiled callables were called."""
        return tuple(self._codes.values())

    @property
    def graph_ran(self) -> bool:
        """Whether any compiled graph ran at all."""
        return bool(self._runs.totals)

    def eager(self) -> list[Eager]:
        """Return the calls that ran no graph.

        Left out are code objects with an entry that holds no graph of its own (tracing stopped before
        its first operator): whether such an entry served a call cannot be told from outside.
        """
        found = []
        for key, calls in self._calls.totals.items():
            identity, condition = key
            left = calls - self._runs.totals.get(key, 0) - self._raised.totals.get(key, 0)
            if left > 0 and identity not in self._graphless:
                found.append(Eager(code=self._codes[identity], condition=condition, calls=left))
        return found


def _condition() -> str:
    if _torch.has_dispatch_mode():
        return DISPATCH_MODE
    stance = _torch.stance()
    return ORDINARY if stance == "default" else STANCE + stance
