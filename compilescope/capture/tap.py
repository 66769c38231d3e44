"""The tap: stands in the place of ``convert_frame._compile``, and tells listeners what each call did.

There is at most one, however many recorders listen: the guards of a frame are examined once. It is
found again through torch itself, so no global of ours changes, and it goes when its last listener goes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from compilescope.capture import _torch, breaks, describe, failures, guards, misses, stack_slots
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
    resumption: stack_slots.Resumption | None
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
        self._tell(_finished(before, result, self._hooks.tracing.end()))
        return result

    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Before:
        call = _torch.read_call(self.original, args, kwargs)
        misses = tuple(_examine(entry, call) for entry in call.entries) if call.has_entry else ()
        return _Before(
            call=call,
            misses=misses,
            owner=describe.owner(call.code, call.locals),
            breaks=_torch.break_count(),
            dynamic=_torch.dynamic_setting(),
        )

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


def _examine(entry: Entry, call: CompileCall) -> EntryMiss:
    try:
        return guards.examine(entry, call)
    except Exception as error:  # noqa: BLE001 (explaining must never break the user's compilation; the doubt is recorded)
        text = f"compilescope could not examine this entry: {type(error).__name__}: {describe.shorten(str(error))}"
        return EntryMiss(id=entry.id, failing=(misses.unknown(text),))


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
        guards=guards.leaf_count(manager),
        operators=_torch.operators_of(before.call.compile_id),
        graph=_torch.graph_name(result),
        f_globals=before.call.globals,
        breaks=tuple(breaks.resumed_events(before.breaks, before.call.code)),
        inlined=tuple(traced.inlined),
    )


def _failed(before: _Before, error: BaseException) -> Attempt:
    seconds = time.perf_counter() - before.started
    return _attempt(
        before,
        "limit" if _torch.is_recompile_limit(error) else "failed",
        seconds,
        error=failures.describe_error(error, before.call.code),
        propagates=_torch.propagates(error, fullgraph=before.call.fullgraph),
        breaks=(*breaks.resumed_events(before.breaks, before.call.code), *breaks.events_of(error, before.call.code)),
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
        resumption=stack_slots.resumption(call.code),
        **facts,
    )
