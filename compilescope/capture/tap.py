"""The tap: stands in the place of ``convert_frame._compile``, and tells listeners what each call did.

There is at most one, however many recorders listen: the guards of a frame are examined once. It is
found again through torch itself, so no global of ours changes, and it goes when its last listener goes.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from compilescope.capture import _torch, breaks, compiled_for, describe, failures, guard_tree, guards, misses
from compilescope.capture.evidence import Pins, pins_in, with_evidence
from compilescope.capture.hooks import Hooks, Traced
from compilescope.record import CompileError, EntryMiss, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from compilescope.capture.call import CompileCall, Entry


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of ``_compile``, as facts. Code objects are the only objects of the user's that it holds."""

    code: CodeType
    compile_id: str
    outcome: Outcome
    seconds: float
    is_recompile: bool
    misses: tuple[EntryMiss, ...]
    backend: str
    dynamic: bool | None
    owner: str | None
    resumes: CodeType | None
    propagates: bool
    """Whether the user sees the error, so that no eager run follows."""
    guards: int | None = None
    operators: int | None = None
    error: CompileError | None = None
    graph: str | None = None
    f_globals: dict[str, Any] | None = None
    """Where the compiled graph stands under the name ``graph``; a module's namespace, which lives anyway."""
    breaks: tuple[breaks.BreakEvent, ...] = ()
    inlined: tuple[CodeType, ...] = ()


class Listener(Protocol):
    """Who is told of what Dynamo does."""

    def on_attempt(self, attempt: Attempt) -> None:
        """Hear of one call of ``_compile``."""

    def on_decline(self, code: CodeType, reason: str) -> None:
        """Hear of a frame that Dynamo was asked about and sent on to run eager, without ``_compile``."""


@dataclass(slots=True)
class _Before:
    """What is noted when a call of ``_compile`` begins."""

    call: CompileCall
    misses: tuple[EntryMiss, ...]
    owner: str | None
    breaks: int
    dynamic: bool | None
    started: float = field(default_factory=time.perf_counter)


class Tap:
    """The callable that is installed. ``original`` is what it replaced."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self._listeners: list[Listener] = []
        self._hooks = Hooks(self._on_declined_frame)
        # For as long as an entry lives: its guard manager is the key, and is not kept alive by it.
        self._compiled_for: WeakKeyDictionary[Any, compiled_for.CompiledFor] = WeakKeyDictionary()
        self._pins: WeakKeyDictionary[Any, Pins] = WeakKeyDictionary()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (the signature differs between versions)
        """Compile as torch would, and tell the listeners."""
        if not self._listeners:
            return self.original(*args, **kwargs)
        before = self._look(args, kwargs)
        self._hooks.note_compile()
        self._hooks.tracing.begin()
        try:
            result = self.original(*args, **kwargs)
        except BaseException as error:
            self._hooks.tracing.end()
            self._tell(_failed(before, error))
            raise
        traced = self._hooks.tracing.end()
        self._tell(_finished(before, result, traced))
        self._note_entry(before.call, result, traced)
        return result

    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Before:
        call = _torch.read_call(self.original, args, kwargs)
        known = self._compiled_for
        misses = tuple(_examine(entry, call, known.get(entry.manager)) for entry in call.entries if call.has_entry)
        pins = [self._pins.get(entry.manager, {}) for entry in call.entries]
        misses = tuple(_with_evidence(*missed, call) for missed in zip(misses, pins, strict=False))
        return _Before(
            call=call,
            misses=misses,
            owner=describe.owner(call.code, call.locals),
            breaks=_torch.break_count(),
            dynamic=_torch.dynamic_setting(),
        )

    def _note_entry(self, call: CompileCall, result: Any, traced: Traced) -> None:  # noqa: ANN401 (version dependent)
        manager = _torch.guard_manager(result)
        if manager is None:
            return
        # Noting must never break the user's compilation; without a note, guards alone say what was expected.
        with contextlib.suppress(Exception):
            self._compiled_for[manager] = compiled_for.note(manager, call.locals)
            self._pins[manager] = pins_in(traced.environment)

    def _tell(self, attempt: Attempt) -> None:
        for listener in tuple(self._listeners):
            listener.on_attempt(attempt)

    def _on_declined_frame(self, code: CodeType, reason: str) -> None:
        for listener in tuple(self._listeners):
            listener.on_decline(code, reason)

    # --- coming and going -------------------------------------------------------------------------

    @classmethod
    def join(cls, listener: Listener) -> Tap:
        """Add a listener to the tap that stands, or to a new one."""
        with _torch.INSTALL_LOCK:
            current = _torch.get_compile()
            if isinstance(current, cls):
                tap = current
            else:
                tap = cls(current)
                _torch.set_compile(tap)
            if not tap._listeners:
                tap._hooks.install()
            tap._listeners.append(listener)
        return tap

    def leave(self, listener: Listener) -> None:
        """Remove a listener; with the last one, put back what was replaced.

        Where somebody has wrapped the tap meanwhile, it stays below and passes calls on untouched.
        """
        with _torch.INSTALL_LOCK:
            if listener in self._listeners:
                self._listeners.remove(listener)
            if self._listeners:
                return
            self._hooks.remove()
            if _torch.get_compile() is self:
                _torch.set_compile(self.original)


def _examine(entry: Entry, call: CompileCall, known: compiled_for.CompiledFor | None) -> EntryMiss:
    try:
        return guards.examine(entry, call, known)
    except Exception as error:  # noqa: BLE001 (explaining must never break the user's compilation; the doubt is recorded)
        text = f"compilescope could not examine this entry: {type(error).__name__}: {describe.shorten(str(error))}"
        return EntryMiss(id=entry.id, failing=(misses.unknown(text),), unconfirmed=text)


def _with_evidence(miss: EntryMiss, pins: Pins, call: CompileCall) -> EntryMiss:
    try:
        return with_evidence(miss, call, pins)
    except Exception:  # noqa: BLE001 (advice must never break the user's compilation; without evidence it says less)
        return miss


def _finished(before: _Before, result: Any, traced: Traced) -> Attempt:  # noqa: ANN401 (a C object)
    manager = _torch.guard_manager(result)
    seconds = time.perf_counter() - before.started
    if manager is None:
        reason = _torch.skip_reason(result) or traced.skipped
        error = None if reason is None else failures.skipped(reason)
        return _attempt(before, "empty" if _torch.is_empty(reason) else "skipped", seconds, error=error)
    return _attempt(
        before,
        "compiled",
        seconds,
        guards=guard_tree.leaf_count(manager),
        operators=_torch.operators_of(before.call.compile_id),
        graph=_torch.graph_name(result),
        f_globals=before.call.globals,
        breaks=tuple(breaks.resumed_events(before.breaks)),
        inlined=tuple(traced.inlined),
    )


def _failed(before: _Before, error: BaseException) -> Attempt:
    seconds = time.perf_counter() - before.started
    return _attempt(
        before,
        "limit" if _torch.is_recompile_limit(error) else "failed",
        seconds,
        error=failures.describe_error(error),
        propagates=_torch.propagates(error, fullgraph=before.call.fullgraph),
        breaks=(*breaks.resumed_events(before.breaks), *breaks.events_of(error)),
    )


def _attempt(before: _Before, outcome: Outcome, seconds: float, **facts: Any) -> Attempt:  # noqa: ANN401 (fields of Attempt)
    call = before.call
    facts.setdefault("propagates", False)
    return Attempt(
        code=call.code,
        compile_id=call.compile_id,
        outcome=outcome,
        seconds=seconds,
        is_recompile=call.has_entry,
        misses=before.misses,
        backend=misses.backend_name(call.backend),
        dynamic=before.dynamic,
        owner=before.owner,
        resumes=_torch.resumed_code(call.code),
        **facts,
    )
