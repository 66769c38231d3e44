"""What is watched beside ``_compile``: which functions are traced inline, and which frames Dynamo declines.

Both sit on the path of a compilation, never on that of a call that a cache entry serves.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from compilescope.capture import _torch

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Traced:
    """What one ``_compile`` call traced: code objects that went inline, why it gave the frame up, and its sizes."""

    inlined: list[CodeType] = field(default_factory=list)
    skipped: str | None = None
    environment: object = None
    """The shape environment of the last round, which lives no longer than the call."""


class Tracing(threading.local):
    """The ``_compile`` calls that are open in this thread, innermost last."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[Traced] = []

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


class _Patch:
    """One attribute of a class, replaced by a wrapper and put back."""

    def __init__(self, owner: type, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._owner = owner
        self._name = name
        self._inherited = name not in vars(owner)
        self._original: Callable[..., Any] = getattr(owner, name)
        self._wrapper = wrap(self._original)
        setattr(owner, name, self._wrapper)

    def undo(self) -> None:
        """Put the original back, unless somebody replaced the wrapper meanwhile."""
        if vars(self._owner).get(self._name) is not self._wrapper:
            return
        if self._inherited:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._original)


class Hooks:
    """Installs and removes the watchers. ``on_decline`` hears of each frame that was declined, with the reason."""

    def __init__(self, on_decline: Callable[[CodeType, str], None]) -> None:
        self.tracing = Tracing()
        self._on_decline = on_decline
        self._compiles_seen = threading.local()
        self._patches: list[_Patch] = []

    def install(self) -> None:
        """Start to watch."""
        self._patches = [
            _Patch(_torch.ROOT_TRANSLATOR, "__init__", self._on_root),
            _Patch(_torch.INLINE_TRANSLATOR, "__init__", self._on_inline),
            _Patch(_torch.SKIP_FRAME, "__init__", self._on_skip),
            _Patch(_torch.FRAME_HANDLER, "__call__", self._on_frame),
            _Patch(_torch.FRAME_CONVERTER, "__call__", self._on_convert),
        ]

    def remove(self) -> None:
        """Stop to watch, and put everything back."""
        while self._patches:
            self._patches.pop().undo()

    def _on_root(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(translator: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (Dynamo's arguments)
            # Tracing starts anew after each graph break that it found: only the last round counts.
            if self.tracing.current is not None:
                self.tracing.current.inlined.clear()
            original(translator, *args, **kwargs)
            if self.tracing.current is not None:
                self.tracing.current.environment = translator.output.shape_env

        return init

    def _on_inline(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(translator: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (Dynamo's arguments)
            if self.tracing.current is not None:
                given = (*args, *kwargs.values())
                self.tracing.current.inlined.extend(value for value in given if isinstance(value, CodeType))
            original(translator, *args, **kwargs)

        return init

    def _on_skip(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(error: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (Dynamo's arguments)
            if self.tracing.current is not None and args:
                self.tracing.current.skipped = str(args[0])
            original(error, *args, **kwargs)

        return init

    def _on_frame(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(handler: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (Dynamo's arguments)
            before = self._seen()
            result = original(handler, frame, *args, **kwargs)
            if self._seen() == before and _torch.guard_manager(result) is None:
                self._decline(frame.f_code, _torch.skip_reason(result))
            return result

        return call

    def _on_convert(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(converter: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (Dynamo's arguments)
            before = self._seen()
            try:
                return original(converter, frame, *args, **kwargs)
            except Exception as error:
                # Refused before _compile was called at all, as generators are.
                if self._seen() == before:
                    self._on_decline(frame.f_code, str(error).partition("\n")[0])
                raise

        return call

    def note_compile(self) -> None:
        """Count a ``_compile`` call of this thread, so that a frame that led to none is known as declined."""
        self._compiles_seen.count = self._seen() + 1

    def _seen(self) -> int:
        return getattr(self._compiles_seen, "count", 0)

    def _decline(self, code: CodeType, reason: str | None) -> None:
        if _torch.is_skip_listed(code):
            return
        if _torch.has_dispatch_mode():
            self._on_decline(code, f"dispatch mode: {', '.join(_torch.dispatch_modes())}")
        elif reason is not None:
            self._on_decline(code, reason)
