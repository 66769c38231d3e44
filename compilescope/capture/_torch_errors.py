"""What Dynamo raises: the kind of an error, who gets it, and where in the user's code it occurred."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo import exc
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, ShapeEnv

if TYPE_CHECKING:
    from types import CodeType

RECOMPILE_LIMIT_TITLE: Final = "Dynamo recompile limit exceeded"
_OBSERVED_TITLES: Final = ("Observed exception", "Observed exception (EXCEPT_HANDLER)")


def error_kind(error: BaseException) -> str:
    """Return which kind of :class:`compilescope.record.CompileError` ended a ``_compile`` call."""
    if isinstance(error, ConstraintViolationError):
        return "constraint_violation"
    if isinstance(error, exc.BackendCompilerFailed):
        return "backend_error"
    if is_recompile_limit(error):
        return "recompile_limit"
    if isinstance(error, exc.TorchRuntimeError | exc.Unsupported) and (kind := _operator_kind(str(error))):
        return kind
    if isinstance(error, exc.TorchRuntimeError):
        return "fake_tensor_error"
    if isinstance(error, exc.Unsupported):
        return "user_exception" if _observed(error) else "unsupported"
    if isinstance(error, exc.UserError | IndexError | AssertionError):
        return "user_exception"
    if isinstance(error, exc.RecompileError):
        return "recompile_forbidden"
    return "internal"


def _operator_kind(text: str) -> str | None:
    """Recognise by Dynamo's words an operator that fails with fake tensors, lacks a kernel for them, or is numpy's."""
    title, _, rest = text.partition("\n")
    if any(words in title for words in _NO_FAKE_KERNEL):
        return "no_fake_kernel"
    if "when making fake tensor call" in title and not any(words in rest for words in _NUMPY_CALL):
        return "fake_tensor_error"
    named = any(word in title.lower() for word in ("numpy", "ndarray"))
    return "numpy_error" if named or any(words in rest for words in _NUMPY_CALL) else None


_NO_FAKE_KERNEL: Final = (
    "Operator does not support running with fake tensors",
    "NotImplementedError/UnsupportedFakeTensorException when running FX node",
    "(no meta kernel)",
    "Custom op missing fake impl",
)
# A numpy function, method or operator is in the graph as one of Dynamo's wrappers.
_NUMPY_CALL: Final = ("<Wrapped function <original", "<Wrapped method <original", "<Wrapped operator <original")


def is_recompile_limit(error: BaseException) -> bool:
    """Whether the recompile limit stopped the compilation."""
    hard = getattr(exc, "FailOnRecompileLimitHit", None)
    if hard is not None and isinstance(error, hard):
        return True
    return isinstance(error, exc.Unsupported) and RECOMPILE_LIMIT_TITLE in str(error).partition("\n")[0]


def is_accumulated_limit(error: BaseException) -> bool:
    """Whether the limit that stopped the compilation is the limit on all compilations of one code object."""
    return _ACCUMULATED in str(error.__cause__ or error)


_ACCUMULATED: Final = "Limit type: accumulated_recompile_limit"


def _observed(error: BaseException) -> bool:
    title = getattr(error, "gb_type", None) or str(error).partition("\n")[0]
    return title in _OBSERVED_TITLES or isinstance(error.__cause__, exc.ObservedException)


def propagates(error: BaseException, *, alone: bool) -> bool:
    """Whether the user sees the error of a ``_compile`` call; otherwise the frame runs eagerly.

    ``alone`` says that no caller swallows errors, as under fullgraph.
    """
    if alone or not isinstance(error, Exception):
        return True
    if isinstance(error, exc.ResumePrologueTracingError | exc.UncapturedHigherOrderOpError):
        return True
    return not dynamo_config.suppress_errors and not isinstance(error, exc.Unsupported | exc.UserError)


def is_unsupported(error: BaseException) -> bool:
    """Whether Dynamo could not trace the frame, which without fullgraph means that it runs eagerly."""
    return isinstance(error, exc.Unsupported)


def is_own(frame: Any) -> bool:  # noqa: ANN401 (a frame summary)
    """Whether a line of a stack is in torch."""
    return str(frame.filename).startswith(_PACKAGE)


_PACKAGE: Final = f"{Path(torch.__file__).parent}/"


def user_stack(error: BaseException) -> list[Any]:
    """Return the frame summaries of the user's code at a failure, outermost first."""
    stack = list(getattr(error, "real_stack", None) or ())
    if stack:
        return stack
    innermost = getattr(error, "innermost_user_frame_summary", None)
    return [innermost] if innermost is not None else []


def holds(code: CodeType, frame: Any) -> bool:  # noqa: ANN401 (a frame summary)
    """Whether a line of the user's stack is in ``code``."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    named = code.co_filename == frame.filename and code.co_name == frame.name
    return named and bool(lines) and min(lines) <= frame.lineno <= max(lines)


def specialising_place(error: BaseException) -> str | None:
    """Return where the user's code pinned a size, as ``# text  # file:line in function``, for a constraint violation.

    The error does not say. The shape environment that raised it is still reachable from its traceback,
    and has the line that requested each of its guards.
    """
    step = error.__traceback__
    while step is not None:
        environment = step.tb_frame.f_locals.get("self")
        if isinstance(environment, ShapeEnv):
            pinned = [guard for guard in environment.guards if getattr(guard.expr, "is_Equality", False)]
            places = [str(getattr(guard.sloc, "maybe_user_loc", None) or "") for guard in pinned]
            return next((f"# {place}" for place in places if place), None)
        step = step.tb_next
    return None
