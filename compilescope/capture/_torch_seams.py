"""The private functions of torch that capture hooks, and the code objects that call them.

Torch inspects Python's stack: ``ConvertFrameAssert`` does not compile a frame whose caller is the wrapper
of ``torch.compiler.disable(recursive=False)``, the shape environment and the logs name the innermost frame that is not
torch's. So nothing here is on the stack while Dynamo translates: each function returns before Dynamo continues. Callers
are identified by their code object, never by a name.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, cast

from torch._dynamo import convert_frame, decorators, eval_frame, exc, symbolic_convert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, TracebackType

INSTALL_LOCK: Final = threading.RLock()
"""Held while the tap or a hook is installed or removed."""

CONVERT_FRAME: Final = convert_frame
"""``compile_context`` is entered around ``_compile``, ``format_error_msg`` is called for each error that is swallowed,
``has_tensor_in_frame`` before a frame is compiled or refused."""
SYMBOLIC_CONVERT: Final = symbolic_convert
"""``cleaned_instructions`` is called for each function that is traced inline."""
DECORATORS: Final = decorators
EVAL_FRAME: Final = eval_frame
SKIP_FRAME: Final = exc.SkipFrame
SPECULATION_LOG: Final = symbolic_convert.SpeculationLog
FRAME_HANDLER: Final = convert_frame.CatchErrorsWrapper
MODE_CHECKS: Final = ("any_torch_dispatch_mode_on_stack", "is_in_any_mode_without_ignore_compile_internals")
"""What the frame handler asks of dispatch modes; one or the other, by a setting."""
SAYS_WHY_IT_SKIPS: Final = hasattr(convert_frame.CatchErrorsWrapper, "_handle_skip")
"""Since 2.13, one method gets every skipped frame, with the reason; 2.11 has no such method."""


def _code_of(function: object) -> CodeType | None:
    return getattr(function, "__code__", None)


def _nested(code: CodeType | None, name: str) -> CodeType | None:
    constants = () if code is None else code.co_consts
    return next((one for one in constants if getattr(one, "co_name", None) == name), None)


CONVERTER: Final = _code_of(convert_frame.ConvertFrameAssert.__call__)
"""Calls ``_compile``."""
HANDLER: Final = _code_of(convert_frame.CatchErrorsWrapper.__call__)
"""Decides first whether to compile a frame."""
REFUSER: Final = _nested(_code_of(eval_frame._callback_from_stance), "fail_callback")
"""Raises under the stance ``fail_on_recompile``."""
_SKIPPED_GUARDS: Final = "skip_guard_eval_unsafe"


def are_as_known() -> bool:
    """Whether torch's own code is where it is expected, so that callers of the hooked functions can be identified."""
    ours = (CONVERTER, HANDLER, REFUSER)
    return all(code is not None and "torch/_dynamo/" in code.co_filename for code in ours)


def get_compile_context() -> Callable[..., Any]:
    """Return the current ``convert_frame.compile_context``."""
    return cast("Callable[..., Any]", vars(convert_frame)["compile_context"])


def set_compile_context(function: Callable[..., Any]) -> None:
    """Put ``function`` in its place: it is called with a context, and returns a context manager."""
    convert_frame.compile_context = function  # type: ignore[attr-defined] # (a name that it imports)


def get_callback_filter() -> Callable[..., Any]:
    """Return the function that every call of a compiled callable passes its callback through, by name."""
    return cast("Callable[..., Any]", eval_frame._callback_from_stance)


def set_callback_filter(function: Callable[..., Any]) -> None:
    """Put ``function`` in its place."""
    eval_frame._callback_from_stance = function


def never_compile(*functions: Callable[..., Any]) -> None:
    """Keep Dynamo from compiling the frames of our own functions that run inside compiled code."""
    for function in functions:
        eval_frame.skip_code(function.__code__)


def handled(caller: Mapping[str, Any]) -> Any:  # noqa: ANN401 (a C object without a Python type)
    """Return the frame that the converter or the handler with these locals was called for."""
    return caller["frame"]


def came_from_compile(error: BaseException) -> bool:
    """Whether an error was raised inside ``_compile``, which may have been wrapped before this file was imported."""
    codes = [step.tb_frame.f_code for step in _steps(error.__traceback__)]
    return any(code.co_name == "_compile" and code.co_filename == convert_frame.__file__ for code in codes)


def refused_unguarded(error: BaseException | None, caller: Any) -> bool:  # noqa: ANN401 (a Python frame)
    """Whether ``error`` is the refusal of the stance ``skip_guard_eval_unsafe``, on its way out of ``caller``.

    Torch raises it in C, where no hook is possible. The compiled callable that it passes through is the
    innermost of its kind on the traceback.
    """
    if not isinstance(error, RuntimeError) or _SKIPPED_GUARDS not in str(error):
        return False
    wrappers = [step.tb_frame for step in _steps(error.__traceback__) if step.tb_frame.f_code is caller.f_code]
    return bool(wrappers) and wrappers[-1] is caller


def below(error: BaseException, caller: Any) -> list[CodeType]:  # noqa: ANN401 (a Python frame)
    """Return the code of the frames that ``error`` has come through below ``caller``, outermost first."""
    codes: list[CodeType] = []
    for step in _steps(error.__traceback__):
        codes = [] if step.tb_frame is caller else [*codes, step.tb_frame.f_code]
    return codes


def _steps(step: TracebackType | None) -> Iterator[TracebackType]:
    while step is not None:
        yield step
        step = step.tb_next


def skips_guards() -> bool:
    """Whether the current stance skips guards and refuses calls that match no entry."""
    return bool(eval_frame._stance.skip_guard_eval_unsafe)
