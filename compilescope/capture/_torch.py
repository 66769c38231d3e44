"""Every private name and version fact of torch that compilescope relies on, and nothing else.

Tried on torch 2.11, 2.13, 2.14 and 2.15. Whoever adds a version runs the suite against it through
nox and mends this file alone. Importing it imports torch.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

import torch
import torch._C._dynamo.eval_frame as c_eval_frame
import torch._C._dynamo.guards as c_guards
from torch._dynamo import config as dynamo_config
from torch._dynamo import (
    convert_frame,
    eval_frame,
    exc,
    external_utils,
    resume_execution,
    symbolic_convert,
    trace_rules,
    utils,
)
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from compilescope.capture.call import CompileCall, Entry
from compilescope.errors import UnsupportedTorchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

OLDEST: Final = (2, 11)
NEWEST: Final = (2, 15)
RESUME_PREFIX: Final = "torch_dynamo_resume_in_"
COMPILED_GRAPH_PREFIX: Final = "__compiled_fn_"

# Relational guards keep state between the values of one check: called alone they answer nonsense.
RELATIONAL_GUARDS: Final = frozenset({"NO_TENSOR_ALIASING", "OBJECT_ALIASING", "STORAGE_OVERLAPPING"})
# Guards whose text is a list of expressions over the frame's locals.
EXPRESSION_GUARDS: Final = frozenset({"SYMBOLIC_SHAPE_GUARD"})
DEVICE_MODE: Final = "DeviceContext"
"""The torch-function mode that ``torch.set_default_device`` pushes."""
MODE_STACK_SOURCE: Final = "___get_torch_function_mode_stack_at("
"""How Dynamo's source of something inside an active torch-function mode begins."""
DICT_MANAGER: Final = c_guards.DictGuardManager


def check_version() -> None:
    """Refuse a torch whose internals are not known.

    Raises:
        UnsupportedTorchError: the installed torch is outside the supported versions.
    """
    numbers = re.match(r"(\d+)\.(\d+)", torch.__version__)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if not OLDEST <= version <= NEWEST:
        msg = (
            f"compilescope supports torch {_dotted(OLDEST)} to {_dotted(NEWEST)}; this is torch {torch.__version__}, "
            "whose internals it does not know."
        )
        raise UnsupportedTorchError(msg)
    if not callable(getattr(convert_frame, "_compile", None)):
        msg = f"torch {torch.__version__} has no convert_frame._compile to observe; is it a modified build?"
        raise UnsupportedTorchError(msg)
    if "code" not in _signature(get_compile()).parameters:
        msg = "somebody replaced torch's convert_frame._compile by a function whose arguments cannot be read by name."
        raise UnsupportedTorchError(msg)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


# --- the compile function -------------------------------------------------------------------------


def get_compile() -> Callable[..., Any]:
    """Return what stands as ``convert_frame._compile`` now."""
    return cast("Callable[..., Any]", convert_frame._compile)


def set_compile(function: Callable[..., Any]) -> None:
    """Put ``function`` in the place of ``convert_frame._compile``, which callers look up by name."""
    convert_frame._compile = function


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of ``_compile``; of a wrapper around it that passes all on, what it was at import."""
    own = inspect.signature(function)
    return own if "code" in own.parameters or _AT_IMPORT is None else inspect.signature(_AT_IMPORT)


_AT_IMPORT: Final = getattr(convert_frame, "_compile", None)


def read_call(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> CompileCall:
    """Bind the arguments of a ``_compile`` call by name.

    2.11 passes a linked list ``cache_entry``; later versions pass ``cache_entries`` of the region
    and ``cache_entries_for_reasons``, to which the default region's are added.
    """
    bound = _signature(original).bind(*args, **kwargs).arguments
    own = bound.get("cache_entries")
    if own is None:
        own = list(_linked(bound.get("cache_entry")))
    examined = bound.get("cache_entries_for_reasons") or own
    return CompileCall(
        code=bound["code"],
        globals=bound["globals"],
        locals=bound["locals"],
        closure=bound.get("closure") or (),
        backend=innermost_backend(bound["compiler_fn"]),
        fullgraph=bool(bound["one_graph"]),
        compile_id=str(bound["compile_id"]),
        entries=tuple(sorted((_entry(e) for e in examined), key=lambda entry: entry.order)),
        has_entry=bool(own),
    )


def _linked(entry: Any) -> Iterator[Any]:  # noqa: ANN401 (a C object without a Python type)
    while entry is not None:
        yield entry
        entry = entry.next


def _entry(raw: Any) -> Entry:  # noqa: ANN401 (a C object without a Python type)
    identity = getattr(raw, "compile_id", None)
    text = str(identity) if identity is not None else "?/?"
    order = getattr(identity, "frame_compile_id", None)
    return Entry(id=text, order=order if order is not None else -1, manager=raw.guard_manager, backend=raw.backend)


def innermost_backend(backend: object) -> object:
    """Return the backend itself, under the wrappers that torch puts around it.

    Under DistributedDataParallel each compilation gets a wrapper of its own, a method of a ``DDPOptimizer``, and the
    cache compares what is inside.
    """
    while (inner := _inner_backend(backend)) is not None:
        backend = inner
    return backend


def _inner_backend(backend: object) -> object:
    optimizer = getattr(backend, "__self__", None)
    return getattr(backend, "_torchdynamo_orig_backend", None) or getattr(optimizer, "backend_compile_fn", None)


def entries_of(code: CodeType) -> tuple[Entry, ...]:
    """Return the cache entries of ``code`` in the default region, oldest first."""
    raw = c_eval_frame._debug_get_cache_entry_list(code)
    return tuple(sorted((_entry(e) for e in raw), key=lambda entry: entry.order))


def guard_manager(result: Any) -> Any:  # noqa: ANN401 (version dependent)
    """Return the guard manager that a ``_compile`` call produced, or None."""
    guarded = getattr(result, "guarded_code", None)
    return None if guarded is None else guarded.guard_manager


def graph_name(result: Any) -> str | None:  # noqa: ANN401 (version dependent)
    """Return the global name under which the compiled graph of a result is called, or None without a graph."""
    guarded = getattr(result, "guarded_code", None)
    if guarded is None:
        return None
    return _graph_in(guarded.code)


def is_empty(reason: str | None) -> bool:
    """Whether a frame was left alone because it holds nothing to compile."""
    return reason is not None and "No ops traced" in reason


def skip_reason(result: Any) -> str | None:  # noqa: ANN401 (version dependent)
    """Return why nothing was compiled, where this version says so."""
    return getattr(result, "skip_reason", None)


def operators_of(compile_id: str) -> int | None:
    """Return how many calls the newest graph captured, if the newest metrics are those of ``compile_id``."""
    metrics = utils.get_compilation_metrics()
    if not metrics or str(metrics[-1].compile_id) != compile_id:
        return None
    return metrics[-1].graph_op_count


def resumed_code(code: CodeType) -> CodeType | None:
    """Return the code object that a resume function continues, or None if ``code`` is no resume function."""
    if not code.co_name.startswith(RESUME_PREFIX):
        return None
    metadata = resume_execution.ContinueExecutionCache.generated_code_metadata.get(code)
    return None if metadata is None else metadata.code


# --- what is patched while somebody listens -------------------------------------------------------

INSTALL_LOCK: Final = threading.RLock()
"""Held while the tap or a hook comes or goes."""

ROOT_TRANSLATOR: Final = symbolic_convert.InstructionTranslator
INLINE_TRANSLATOR: Final = symbolic_convert.InliningInstructionTranslator
FRAME_HANDLER: Final = convert_frame.CatchErrorsWrapper
FRAME_CONVERTER: Final = convert_frame.ConvertFrameAssert
SKIP_FRAME: Final = exc.SkipFrame


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


def stance() -> str:
    """Return the name of the stance that ``torch.compiler.set_stance`` set."""
    return str(eval_frame._stance.stance)


def has_dispatch_mode() -> bool:
    """Whether a dispatch mode under which Dynamo compiles nothing is active."""
    return torch._C._len_torch_dispatch_stack() > 0 and any(
        not mode.is_infra_mode() for mode in _get_current_dispatch_mode_stack()
    )


def is_own_wrapper(code: CodeType) -> bool:
    """Whether ``code`` is the function that Dynamo lays around what it would not trace by itself."""
    return code.co_name == "inner" and code.co_filename == external_utils.__file__


def is_skip_listed(code: CodeType) -> bool:
    """Whether Dynamo's rules send this code to eager wherever it stands (library code that is never traced)."""
    return bool(trace_rules.check(code))


def target_code(function: object) -> CodeType | None:
    """Return the code object whose frame Dynamo compiles when a compiled callable of ``function`` is called."""
    return cast("CodeType | None", getattr(_target(function), "__code__", None))


def is_disabled(function: object) -> bool:
    """Whether ``torch.compiler.disable`` keeps a function from compiling."""
    return bool(getattr(function, "_torchdynamo_disable", False))


def globals_of(function: object) -> dict[str, Any]:
    """Return the namespace in which the compiled graphs of ``function`` stand."""
    return cast("dict[str, Any]", getattr(_target(function), "__globals__", {}))


def _target(function: object) -> object:
    # This is on the path of every counted call: a plain function is told at once.
    if type(function) is FunctionType and not function.__dict__:
        return function
    inner = eval_frame.innermost_fn(cast("Callable[..., Any]", function))
    module = getattr(inner, "__self__", inner)
    if isinstance(module, torch.nn.Module) and getattr(inner, "__name__", "__call__") in _MODULE_CALLS:
        inner = module.forward
    return getattr(inner, "__func__", inner)


_MODULE_CALLS: Final = ("__call__", "_call_impl", "_wrapped_call_impl")


def graphs_of(code: CodeType) -> list[str | None]:
    """Return the graph name of every entry that ``code`` has; None for an entry without a graph."""
    raw = c_eval_frame._debug_get_cache_entry_list(code)
    return [_graph_in(entry.code) for entry in raw]


def _graph_in(code: CodeType) -> str | None:
    return next((name for name in code.co_names if name.startswith(COMPILED_GRAPH_PREFIX)), None)


# --- configuration --------------------------------------------------------------------------------

_REPORTED_CONFIG: Final = (
    "recompile_limit",
    "accumulated_recompile_limit",
    "assume_static_by_default",
    "automatic_dynamic_shapes",
    "specialize_int",
    "specialize_float",
    "allow_unspec_int_on_nn_module",
    "suppress_errors",
    "fail_on_recompile_limit_hit",
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
)
_REPORTED_SHAPE_CONFIG: Final = ("use_duck_shape", "backed_size_oblivious")


def read_config() -> dict[str, bool | int | float | str | None]:
    """Return the settings that decide what recompiles. They are thread-local: call it where it compiles."""
    import torch.fx.experimental._config as shape_config  # noqa: PLC0415 (a config module, made at first use)

    found = {name: getattr(dynamo_config, name) for name in _REPORTED_CONFIG if hasattr(dynamo_config, name)}
    found |= {name: getattr(shape_config, name) for name in _REPORTED_SHAPE_CONFIG if hasattr(shape_config, name)}
    plain = (bool, int, float, str, type(None))
    return {name: value for name, value in found.items() if isinstance(value, plain)}


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """The settings of Dynamo and of symbolic shapes, as they stood in one thread."""

    settings: tuple[tuple[Any, dict[str, Any]], ...]


def config_snapshot() -> ConfigSnapshot:
    """Return every setting that decides what compiles, for :func:`restore_config`."""
    import torch.fx.experimental._config as shape_config  # noqa: PLC0415 (a config module, made at first use)

    modules: tuple[Any, ...] = (dynamo_config, shape_config)
    return ConfigSnapshot(tuple((module, module.get_config_copy()) for module in modules))


def restore_config(snapshot: ConfigSnapshot) -> None:
    """Put back what has changed since ``snapshot``; the rest is left untouched."""
    for module, before in snapshot.settings:
        now = module.get_config_copy()
        for name, value in before.items():
            if now[name] != value:
                setattr(module, name, value)


def reset() -> None:
    """Drop all compiled code of this process, and what Dynamo learned of sizes that change."""
    torch.compiler.reset()


def dynamic_setting() -> bool | None:
    """Return what ``torch.compile(dynamic=...)`` asked of the compilation that runs; None for automatic."""
    if not dynamo_config.assume_static_by_default:
        return True
    return None if dynamo_config.automatic_dynamic_shapes else False


# --- exceptions -----------------------------------------------------------------------------------

RECOMPILE_LIMIT_TITLE: Final = "Dynamo recompile limit exceeded"
_OBSERVED_TITLES: Final = ("Observed exception", "Observed exception (EXCEPT_HANDLER)")


def error_kind(error: BaseException) -> str:
    """Tell what sort of failure ended a ``_compile`` call: the kinds of :class:`compilescope.record.CompileError`."""
    if isinstance(error, ConstraintViolationError):
        return "constraint_violation"
    if isinstance(error, exc.BackendCompilerFailed):
        return "backend_error"
    if is_recompile_limit(error):
        return "recompile_limit"
    if isinstance(error, exc.Unsupported):
        return "user_exception" if _observed(error) else "unsupported"
    if isinstance(error, exc.TorchRuntimeError | exc.UserError | IndexError | AssertionError):
        return "user_exception"
    if isinstance(error, exc.RecompileError):
        return "recompile_forbidden"
    return "internal"


def is_recompile_limit(error: BaseException) -> bool:
    """Whether the recompile limit stopped the compilation."""
    hard = getattr(exc, "FailOnRecompileLimitHit", None)
    if hard is not None and isinstance(error, hard):
        return True
    return isinstance(error, exc.Unsupported) and RECOMPILE_LIMIT_TITLE in str(error).partition("\n")[0]


def _observed(error: BaseException) -> bool:
    title = getattr(error, "gb_type", None) or str(error).partition("\n")[0]
    return title in _OBSERVED_TITLES or isinstance(error.__cause__, exc.ObservedException)


def propagates(error: BaseException, *, fullgraph: bool) -> bool:
    """Whether the user sees the error of a ``_compile`` call; otherwise the frame runs eager."""
    if fullgraph or not isinstance(error, Exception):
        return True
    if isinstance(error, exc.Unsupported | exc.UserError):
        return type(error).__name__ == "FailOnRecompileLimitHit"
    return not dynamo_config.suppress_errors


def is_unsupported(error: BaseException) -> bool:
    """Whether Dynamo could not trace the frame, which without fullgraph means that it runs eager."""
    return isinstance(error, exc.Unsupported)


def user_stack(error: BaseException) -> list[Any]:
    """Return the frame summaries of the user's code at a failure, outermost first."""
    stack = list(getattr(error, "real_stack", None) or ())
    if stack:
        return stack
    innermost = getattr(error, "innermost_user_frame_summary", None)
    return [innermost] if innermost is not None else []


# --- graph breaks ---------------------------------------------------------------------------------


def break_count() -> int:
    """Return how many graph breaks have been noted so far in this process."""
    return len(utils.graph_break_reasons)


def breaks_since(count: int) -> list[tuple[str, list[Any]]]:
    """Return reason and user stack (outermost first) of the graph breaks noted after the first ``count``."""
    return [(b.reason, list(b.user_stack)) for b in utils.graph_break_reasons[count:] if b.graph_break]


def registry() -> dict[str, str]:
    """Return the graph-break registry that ships with torch: id -> title."""
    path = Path(torch.__file__).with_name("_dynamo") / "graph_break_registry.json"
    with contextlib.suppress(OSError, ValueError):
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {identity: versions[0]["Gb_type"] for identity, versions in entries.items() if versions}
    return {}


# --- guards ---------------------------------------------------------------------------------------


def guard_scope(manager: Any, f_locals: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 (version dependent)
    """Return the names that the source expressions of a guard manager are written in."""
    scope: dict[str, Any] = {"L": f_locals, "G": (manager.global_scope or {}).get("G", {})}
    scope.update(manager.closure_vars or {})
    return scope


def no_torch_function() -> contextlib.AbstractContextManager[Any]:
    """Keep subclasses and modes from seeing what is done inside: looking at a tensor must not run the user's code."""
    return cast("contextlib.AbstractContextManager[Any]", torch._C.DisableTorchFunction())


def invalidation(manager: Any) -> str | None:  # noqa: ANN401 (version dependent)
    """Return why Dynamo threw an entry's guards away, or None if they stand."""
    return getattr(manager, "invalidation_reason", None)


def global_state() -> dict[str, Any]:
    """Return the process state that GLOBAL_STATE guards, by field."""
    state = cast("str", c_guards.GlobalStateGuard().__getstate__())
    return cast("dict[str, Any]", json.loads(state))


def default_device() -> str:
    """Return the device that ``torch.set_default_device`` set, as text."""
    import torch.utils._device as device_module  # noqa: PLC0415 (its global changes)

    return str(device_module.CURRENT_DEVICE)


def function_modes() -> list[str]:
    """Return the class names of the active torch-function modes, outermost first."""
    stack: list[object] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return [type(mode).__qualname__ for mode in stack]


def dispatch_modes() -> list[str]:
    """Return the class names of the active dispatch modes, outermost first."""
    return [type(mode).__qualname__ for mode in _get_current_dispatch_mode_stack()]


def dispatch_keys(tensor: torch.Tensor) -> str:
    """Return a tensor's dispatch keys as Dynamo compares them, with the thread's masks applied, as text."""
    keys = torch._C._dispatch_keys(tensor)
    return str((keys | torch._C._dispatch_tls_local_include_set()) - torch._C._dispatch_tls_local_exclude_set())


def autocast_differs(guard_text: str, tensor: torch.Tensor) -> bool:
    """Whether autocast, which adds a key to every tensor, is on for a tensor's device on one side only."""
    return ("Autocast" in guard_text) != ("Autocast" in dispatch_keys(tensor))


def subclass_metadata(value: object) -> object:
    """Return the metadata that Dynamo guards of a wrapper subclass; None where the value is none."""
    flatten = getattr(value, "__tensor_flatten__", None)
    return flatten()[1] if callable(flatten) else None
