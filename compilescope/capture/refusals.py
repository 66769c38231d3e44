"""Calls that a stance refused: Dynamo raises and compiles nothing, so ``_compile`` is never called.

The stance ``fail_on_recompile`` calls one of the functions that :mod:`compilescope.capture.hooks` watches. The other,
``skip_guard_eval_unsafe``, raises in C; what can be seen is the error on its way out of the compiled callable. That
function is on the path of every call, so it is watched only while the stance is set.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from compilescope.capture import _torch, _torch_seams
from compilescope.capture.hooks import Patch

if TYPE_CHECKING:
    from collections.abc import Callable


class UnguardedStance:
    """Watches calls under the stance ``skip_guard_eval_unsafe``. ``on_refusal`` gets the frame and the backend."""

    def __init__(self, on_refusal: Callable[[Any, object], None]) -> None:
        self._on_refusal = on_refusal
        self._setter: Patch | None = None
        self._calls: Patch | None = None

    def install(self) -> None:
        """Start watching."""
        self._setter = Patch(_torch_seams.DECORATORS, "_set_stance", self._at_stance)
        self._follow()

    def remove(self) -> None:
        """Stop watching, and restore everything."""
        for patch in (self._calls, self._setter):
            if patch is not None:
                patch.undo()
        self._calls = self._setter = None

    def _follow(self) -> None:
        with _torch_seams.INSTALL_LOCK:
            wanted = _torch_seams.skips_guards()
            if wanted and self._calls is None:
                self._calls = Patch(_torch_seams.EVAL_FRAME, "set_skip_guard_eval_unsafe", self._at_call)
            elif not wanted and self._calls is not None:
                self._calls.undo()
                self._calls = None

    def _at_stance(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_stance(stance: object) -> Any:  # noqa: ANN401 (Dynamo's)
            before = original(stance)
            if self._setter is not None:
                self._follow()
            return before

        return set_stance

    def _at_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_skip_guard_eval_unsafe(value: object) -> Any:  # noqa: ANN401 (Dynamo's)
            error, caller = sys.exc_info()[1], sys._getframe(1)  # noqa: SLF001 (what is on its way out, and of whom)
            if error is not None and _torch_seams.refused_unguarded(error, caller):
                found = caller.f_locals
                # If other code ran in between, neither what it called nor the modes that it called it in are known.
                whole = all(_torch.calls_forward(code) for code in _torch_seams.below(error, caller))
                frame = _torch.called_frame(found["fn"], found["args"], found["kwargs"], whole=whole)
                if frame is not None:
                    self._on_refusal(frame, found["callback"])
            return original(value)

        return set_skip_guard_eval_unsafe
