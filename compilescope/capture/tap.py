"""The tap: watches ``convert_frame._compile``, and tells listeners what each call did.

It replaces ``convert_frame.compile_context``, which is entered around each call: so it runs before and
after, and none of its frames is on the stack in between (``_torch_seams`` says why that matters).

There is at most one, however many recorders listen: the guards of a frame are examined once. It is
found through torch itself, so no global of ours changes, and it is removed with its last listener.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from compilescope.capture import (
    _torch,
    _torch_errors,
    _torch_seams,
    accepted_elsewhere,
    breaks,
    compile_errors,
    compiled_for,
    describe,
    guard_tree,
    guards,
    relations,
    stack_slots,
)
from compilescope.capture.accepted_elsewhere import Examined
from compilescope.capture.hooks import Hooks, Traced
from compilescope.capture.refusals import UnguardedStance
from compilescope.record import CompileError, EntryMiss, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from traceback import FrameSummary
    from types import CodeType, TracebackType

    from compilescope.capture.compile_call import CompileCall, Entry


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of ``_compile``, as facts. Code objects are the only user objects that it holds."""

    code: CodeType
    compile_id: str
    outcome: Outcome
    seconds: float
    is_recompile: bool
    misses: tuple[EntryMiss, ...]
    backend: str
    dynamic: bool | None
    owner: str | None
    limit: int
    resumes: CodeType | None
    resumption: stack_slots.Resumption | None
    propagates: bool
    """Whether the user sees the error, so that no eager run follows."""
    guards: int | None = None
    operators: int | None = None
    error: CompileError | None = None
    graph: str | None = None
    f_globals: dict[str, Any] | None = None
    """The namespace that holds the compiled graph as ``graph``; a module's, which stays alive anyway."""
    breaks: tuple[breaks.BreakEvent, ...] = ()
    inlined: tuple[CodeType, ...] = ()
    left_out: tuple[CodeType, ...] = ()
    """Functions that contain a graph break, so they are called from outside the graph."""


class Listener(Protocol):
    """Receives what Dynamo does."""

    def on_attempt(self, attempt: Attempt) -> None:
        """Receive one call of ``_compile``."""

    def on_decline(self, code: CodeType, reason: str) -> None:
        """Receive a frame that Dynamo chose to run eagerly, without ``_compile``."""


@dataclass(slots=True)
class _Before:
    """What is noted when a call of ``_compile`` begins."""

    call: CompileCall
    misses: tuple[EntryMiss, ...]
    owner: str | None
    breaks: int
    dynamic: bool | None
    started: float = field(default_factory=time.perf_counter)


class _Watch:
    """Surrounds one call of ``_compile``: it is entered and has returned before it, and is left after it.

    It finds what ``_compile`` is called with, and what it returns, among the locals of the function
    that calls it, so none of our frames is below. It keeps neither, nor that function's frame.
    """

    def __init__(self, tap: Tap, inner: Any) -> None:  # noqa: ANN401 (torch's context manager)
        self._tap = tap
        self._inner = inner
        self._before: _Before | None = None

    def __enter__(self) -> object:
        entered = self._inner.__enter__()
        self._before = self._tap.look(sys._getframe(1).f_locals)  # noqa: SLF001 (the caller of _compile)
        return entered

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> bool:
        before, self._before = self._before, None
        if before is not None:
            self._tap.tell(before, sys._getframe(1).f_locals, error)  # noqa: SLF001 (the caller of _compile)
        return bool(self._inner.__exit__(kind, error, tb))


class Tap:
    """The callable that is installed. ``original`` is what it replaced."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self._listeners: list[Listener] = []
        self._hooks = Hooks(self._on_declined_frame, self._on_refused_frame)
        self._unguarded = UnguardedStance(self._on_refused_frame)
        # As long as an entry lives: its guard manager is the key, which this does not keep alive.
        self._compiled_for: WeakKeyDictionary[Any, compiled_for.CompiledFor] = WeakKeyDictionary()

    def __call__(self, context: object) -> Any:  # noqa: ANN401 (a context manager of torch's)
        """Return what torch would enter, wrapped in one of ours around a call of ``_compile``."""
        inner = self.original(context)
        if self._listeners and sys._getframe(1).f_code is _torch_seams.CONVERTER:  # noqa: SLF001 (who enters it decides)
            return _Watch(self, inner)
        return inner

    def look(self, converter: Mapping[str, Any]) -> _Before:
        """Note what ``_compile`` is about to be called with."""
        call = _torch.read_call(converter)
        before = self._before(call)
        self._hooks.tracing.begin()
        return before

    def _before(self, call: CompileCall) -> _Before:
        return _Before(
            call=call,
            misses=_marked([self._examine(entry, call) for entry in call.entries]) if call.has_entry else (),
            owner=describe.owner(call.code, call.locals),
            breaks=_torch.break_count(),
            dynamic=_torch.dynamic_setting(),
        )

    def _note_entry(self, call: CompileCall, result: Any) -> None:  # noqa: ANN401 (version dependent)
        manager = _torch.guard_manager(result)
        if manager is None:
            return
        # Noting must never break the user's compilation; without a note, guards alone say what was expected.
        with contextlib.suppress(Exception):
            self._compiled_for[manager] = compiled_for.note(manager, call.locals)

    def _examine(self, entry: Entry, call: CompileCall) -> Examined:
        try:
            return guards.examine(entry, call, self._compiled_for.get(entry.manager))
        except Exception as error:  # noqa: BLE001 (explaining must never break the user's compilation; the doubt is recorded)
            text = f"compilescope could not examine this entry: {type(error).__name__}: {describe.shorten(str(error))}"
            return Examined(EntryMiss(id=entry.id, failing=(relations.unknown(text),), unconfirmed=text))

    def tell(self, before: _Before, converter: Mapping[str, Any], error: BaseException | None) -> None:
        """Tell the listeners what ``_compile`` returned, or raised."""
        traced = self._hooks.tracing.end()
        if error is not None:
            self._tell(_failed(before, error, traced, alone=_torch.compiles_alone(converter)))
            return
        self._hooks.tracing.ended = id(_torch_seams.handled(converter))
        self._tell(_finished(before, converter["result"], traced))
        self._note_entry(before.call, converter["result"])

    def _tell(self, attempt: Attempt) -> None:
        for listener in tuple(self._listeners):
            listener.on_attempt(attempt)

    def _on_declined_frame(self, code: CodeType, reason: str) -> None:
        for listener in tuple(self._listeners):
            listener.on_decline(code, reason)

    def _on_refused_frame(self, frame: Any, backend: object) -> None:  # noqa: ANN401 (a C object without a Python type)
        before = self._before(_torch.refused_call(frame, backend))
        self._tell(_attempt(before, "refused", 0.0, error=compile_errors.refused(), propagates=True))

    # --- coming and going -------------------------------------------------------------------------

    @classmethod
    def join(cls, listener: Listener) -> Tap:
        """Add a listener to the current tap, or to a new one."""
        with _torch_seams.INSTALL_LOCK:
            current = _torch_seams.get_compile_context()
            if isinstance(current, cls):
                tap = current
            else:
                tap = cls(current)
                _torch_seams.set_compile_context(tap)
            if not tap._listeners:
                tap._hooks.install()
                tap._unguarded.install()
            tap._listeners.append(listener)
        return tap

    def leave(self, listener: Listener) -> None:
        """Remove a listener; with the last one, restore what was replaced.

        If something else has wrapped the tap in the meantime, it stays and passes calls on unchanged.
        """
        with _torch_seams.INSTALL_LOCK:
            if listener in self._listeners:
                self._listeners.remove(listener)
            if self._listeners:
                return
            self._unguarded.remove()
            self._hooks.remove()
            if _torch_seams.get_compile_context() is self:
                _torch_seams.set_compile_context(self.original)


def _marked(examined: Sequence[Examined]) -> tuple[EntryMiss, ...]:
    try:
        return accepted_elsewhere.marked(examined)
    except Exception:  # noqa: BLE001 (as for an entry: what is not marked is told all the same)
        return tuple(one.miss for one in examined)


def _finished(before: _Before, result: Any, traced: Traced) -> Attempt:  # noqa: ANN401 (a C object)
    manager = _torch.guard_manager(result)
    seconds = time.perf_counter() - before.started
    if manager is None:
        reason = _torch.skip_reason(result) or traced.skipped
        error = None if reason is None else compile_errors.skipped(reason)
        return _attempt(before, "empty" if _torch.is_empty(reason) else "skipped", seconds, error=error)
    return _attempt(
        before,
        "compiled",
        seconds,
        guards=guard_tree.leaf_count(manager),
        operators=_torch.operators_of(before.call.compile_id),
        graph=_torch.graph_name(result),
        f_globals=before.call.globals,
        breaks=tuple(breaks.resumed_events(before.breaks, before.call.code)),
        inlined=tuple(traced.inlined),
        left_out=_called_alone(traced, [stack for _, stack in _torch.breaks_since(before.breaks)]),
    )


def _failed(before: _Before, error: BaseException, traced: Traced, *, alone: bool) -> Attempt:
    seconds = time.perf_counter() - before.started
    noted = _torch.breaks_since(before.breaks)
    propagates = _torch_errors.propagates(error, alone=alone)
    stacks = [stack for _, stack in noted] + ([] if propagates else [_torch_errors.user_stack(error)])
    facts = {}
    if _torch_errors.is_recompile_limit(error) and _torch_errors.is_accumulated_limit(error):
        facts["limit"] = _torch.accumulated_limit()
    return _attempt(
        before,
        _outcome(error),
        seconds,
        error=compile_errors.describe_error(error, before.call.code),
        propagates=propagates,
        breaks=(*breaks.resumed_events(before.breaks, before.call.code), *breaks.events_of(error, before.call.code)),
        left_out=_called_alone(traced, stacks),
        **facts,
    )


def _outcome(error: BaseException) -> Outcome:
    if _torch_errors.is_recompile_limit(error):
        return "limit"
    return "refused" if _torch_errors.error_kind(error) == "recompile_forbidden" else "failed"


def _called_alone(traced: Traced, stacks: Iterable[Sequence[FrameSummary]]) -> tuple[CodeType, ...]:
    """Return the functions that contain a break, or call one that does: they were called from outside the graph."""
    lines = [frame for stack in stacks for frame in stack[1:]]
    return tuple(code for code in traced.left_out if any(_torch_errors.holds(code, frame) for frame in lines))


def _attempt(before: _Before, outcome: Outcome, seconds: float, **facts: Any) -> Attempt:  # noqa: ANN401 (fields of Attempt)
    call = before.call
    facts.setdefault("propagates", False)
    facts.setdefault("limit", call.limit)
    return Attempt(
        code=call.code,
        compile_id=call.compile_id,
        outcome=outcome,
        seconds=seconds,
        is_recompile=call.has_entry,
        misses=before.misses,
        backend=relations.backend_name(call.backend),
        dynamic=before.dynamic,
        owner=before.owner,
        resumes=_torch.resumed_code(call.code),
        resumption=stack_slots.resumption(call.code),
        **facts,
    )
