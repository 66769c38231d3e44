"""What is watched besides ``_compile``: which functions are traced inline, and which frames Dynamo declines or refuses.

All of it sits on the path of a compilation, never on that of a call that a cache entry serves. Each patch
replaces a function that returns at once: none is on the stack while Dynamo translates or inspects its caller.
"""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compilescope.capture import _torch, _torch_places, _torch_seams, guard_places

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

NO_TENSOR: Final = "no tensor-related objects found in frame"
"""Why torch skips most frames, in its own words; 2.11 does not say."""


@dataclass(slots=True)
class Traced:
    """What one ``_compile`` call traced: code objects that were inlined, and why it gave up the frame.

    Dynamo begins a new round of tracing after each graph break that it found.
    """

    inlined: list[CodeType] = field(default_factory=list)
    given_up: list[CodeType] = field(default_factory=list)
    """Traced inline in an earlier round."""
    skipped: str | None = None

    def begin_round(self) -> None:
        """Forget what the last round traced inline, as Dynamo does."""
        self.given_up += self.inlined
        self.inlined.clear()

    @property
    def left_out(self) -> tuple[CodeType, ...]:
        """The functions that an earlier round traced inline, and the last one did not."""
        kept = {id(code) for code in self.inlined}
        return tuple({id(code): code for code in self.given_up if id(code) not in kept}.values())


class Tracing(threading.local):
    """The ``_compile`` calls that are open in this thread, innermost last."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[Traced] = []
        self.ended: int | None = None
        """Identity of the frame whose ``_compile`` call has just ended; its return value is already known."""

    def begin(self) -> None:
        """Open a call."""
        self._open.append(Traced())

    def end(self) -> Traced:
        """Close the innermost call and return what it traced."""
        return self._open.pop()

    @property
    def current(self) -> Traced | None:
        """The innermost open call, or None."""
        return self._open[-1] if self._open else None


class Patch:
    """One attribute of a class or module, replaced by a wrapper and put back."""

    def __init__(self, owner: object, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._owner = owner
        self._name = name
        self._inherited = name not in vars(owner)
        self._original: Callable[..., Any] = getattr(owner, name)
        self._wrapper = functools.wraps(self._original)(wrap(self._original))
        setattr(owner, name, self._wrapper)

    def undo(self) -> None:
        """Put the original back, unless something else replaced the wrapper in the meantime."""
        if vars(self._owner).get(self._name) is not self._wrapper:
            return
        if self._inherited:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._original)


class Hooks:
    """Installs and removes the watchers.

    Args:
        on_decline: called for each frame that Dynamo left to run eagerly, with the reason.
        on_refusal: called for each frame that the stance ``fail_on_recompile`` refuses, with the backend.
    """

    def __init__(self, on_decline: Callable[[CodeType, str], None], on_refusal: Callable[[Any, object], None]) -> None:
        self.tracing = Tracing()
        self._on_decline = on_decline
        self._on_refusal = on_refusal
        self._places = guard_places.Watch()
        self._patches: list[Patch] = []

    def install(self) -> None:
        """Start watching."""
        seams = _torch_seams
        self._patches = [
            Patch(seams.SPECULATION_LOG, "restart", self._at_round),
            Patch(seams.SYMBOLIC_CONVERT, "cleaned_instructions", self._at_inline),
            Patch(seams.SKIP_FRAME, "__init__", self._at_skip),
            Patch(seams.CONVERT_FRAME, "has_tensor_in_frame", self._at_tensor_check),
            Patch(seams.CONVERT_FRAME, "format_error_msg", self._at_swallowed_error),
            Patch(_torch_places.GUARD_BUILDER, "__init__", self._places.building),
            Patch(_torch_places.GUARD_WRITER, _torch_places.GUARD_WRITER_NAME, self._places.writing),
            Patch(_torch_places.SHAPE_PLACE, "__init__", self._places.asking),
        ]
        if seams.SAYS_WHY_IT_SKIPS:
            self._patches.append(Patch(seams.FRAME_HANDLER, "_handle_skip", self._at_answer))
        else:
            self._patches += [Patch(seams.CONVERT_FRAME, name, self._at_mode_check) for name in seams.MODE_CHECKS]

    def remove(self) -> None:
        """Stop watching, and restore everything."""
        while self._patches:
            self._patches.pop().undo()

    def _at_round(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def restart(log: Any) -> Any:  # noqa: ANN401 (Dynamo's)
            if self.tracing.current is not None:
                self.tracing.current.begin_round()
            return original(log)

        return restart

    def _at_inline(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def cleaned_instructions(code: CodeType, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (Dynamo's)
            if self.tracing.current is not None:
                self.tracing.current.inlined.append(code)
            return original(code, *args, **kwargs)

        return cleaned_instructions

    def _at_skip(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(error: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (Dynamo's)
            if self.tracing.current is not None and args:
                self.tracing.current.skipped = str(args[0])
            original(error, *args, **kwargs)

        return init

    def _at_tensor_check(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def has_tensor_in_frame(frame: Any) -> bool:  # noqa: ANN401 (a C object without a Python type)
            has_tensor = bool(original(frame))
            caller = sys._getframe(1)  # noqa: SLF001 (who asks decides what the answer leads to)
            if has_tensor and caller.f_code is _torch_seams.REFUSER:
                self._on_refusal(frame, caller.f_locals["callback"])
            elif not has_tensor and caller.f_code is _torch_seams.CONVERTER and not _torch_seams.SAYS_WHY_IT_SKIPS:
                self._on_decline(frame.f_code, NO_TENSOR)
            return has_tensor

        return has_tensor_in_frame

    def _at_swallowed_error(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def format_error_msg(error: Exception, code: CodeType, record: Any, frame: Any, *args: Any) -> Any:  # noqa: ANN401 (Dynamo's)
            self.tracing.ended = id(frame)
            if not _torch_seams.came_from_compile(error):
                # Refused before _compile was called, like generators.
                self._on_decline(code, str(error).partition("\n")[0])
            return original(error, code, record, frame, *args)

        return format_error_msg

    def _at_answer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def handle_skip(handler: Any, result: Any, frame: Any) -> Any:  # noqa: ANN401 (Dynamo's)
            ended, self.tracing.ended = self.tracing.ended == id(frame), None
            if not ended and _torch.guard_manager(result) is None:
                self._decline(frame.f_code, _torch.skip_reason(result))
            return original(handler, result, frame)

        return handle_skip

    def _at_mode_check(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def is_in_mode(*args: Any, **kwargs: Any) -> bool:  # noqa: ANN401 (Dynamo's)
            answer = bool(original(*args, **kwargs))
            caller = sys._getframe(1)  # noqa: SLF001 (who asks decides what the answer leads to)
            if answer and caller.f_code is _torch_seams.HANDLER:
                self._decline(_torch_seams.handled(caller.f_locals).f_code, None)
            return answer

        return is_in_mode

    def _decline(self, code: CodeType, reason: str | None) -> None:
        if _torch.is_skip_listed(code):
            return
        if _torch.has_dispatch_mode():
            self._on_decline(code, f"dispatch mode: {', '.join(_torch.dispatch_modes())}")
        elif reason is not None:
            self._on_decline(code, reason)
