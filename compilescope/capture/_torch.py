"""Every private name and version fact of torch that compilescope reads; the functions it hooks are in ``_torch_seams``.

Tried on torch 2.11, 2.13, 2.14 and 2.15. To add a version, run the suite against it through
nox and fix only this file. Importing it imports torch.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

import torch
import torch._C._dynamo.eval_frame as c_eval_frame
import torch._C._dynamo.guards as c_guards
from torch._dynamo import config as dynamo_config
from torch._dynamo import decorators, eval_frame, external_utils, resume_execution, trace_rules, utils
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from compilescope.capture import _torch_seams
from compilescope.capture.compile_call import CompileCall, Entry
from compilescope.errors import UnsupportedTorchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import CodeType

OLDEST: Final = (2, 11)
NEWEST: Final = (2, 15)
RESUME_PREFIX: Final = "torch_dynamo_resume_in_"
COMPILED_GRAPH_PREFIX: Final = "__compiled_fn_"

# Relational guards keep state between the values of one check: called alone, they return nonsense.
RELATIONAL_GUARDS: Final = frozenset({"NO_TENSOR_ALIASING", "OBJECT_ALIASING", "STORAGE_OVERLAPPING"})
# Guards whose text is a list of expressions over the frame's locals.
EXPRESSION_GUARDS: Final = frozenset({"SYMBOLIC_SHAPE_GUARD"})
DEVICE_MODE: Final = "DeviceContext"
"""The torch-function mode that ``torch.set_default_device`` pushes."""
MODE_STACK_SOURCE: Final = "___get_torch_function_mode_stack_at("
"""How Dynamo's source of something inside an active torch-function mode begins."""
DICT_MANAGER: Final = c_guards.DictGuardManager


def check_version() -> None:
    """Reject a torch whose internals are unknown.

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
    if not _torch_seams.are_as_known():
        msg = f"torch {torch.__version__} does not compile where compilescope expects it; is it a modified build?"
        raise UnsupportedTorchError(msg)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


# --- the compile function -------------------------------------------------------------------------


def read_call(converter: Mapping[str, Any]) -> CompileCall:
    """Read what ``_compile`` is about to be called with from the locals of its caller.

    Versions after 2.11 have ``cache_entries`` of the region and ``cache_entries_for_reasons``, to which the default
    region's are added. 2.11 has no regions, and its list only has the entries from before the call waited for the
    compile lock: there, read the cache itself.
    """
    own = converter.get("cache_entries")
    if own is None:
        own = c_eval_frame._debug_get_cache_entry_list(converter["frame"].f_code)
    examined = converter.get("cache_entries_for_reasons") or own
    owner = converter["self"]
    return _call(
        converter["frame"],
        backend=owner._torchdynamo_orig_backend,
        fullgraph=bool(owner._one_graph),
        compile_id=str(converter["compile_id"]),
        limit=_limit_of(owner),
        entries=_ordered(examined),
        has_entry=bool(own),
    )


def refused_call(frame: Any, backend: object) -> CompileCall:  # noqa: ANN401 (a C object, or one of ours like it)
    """Describe a call that a stance refused, as if ``_compile`` had been called."""
    entries = entries_of(frame.f_code)
    examined = () if frame.f_locals is None else entries
    return _call(
        frame,
        backend=backend,
        fullgraph=False,
        compile_id=f"{entries[0].id.partition('/')[0] if entries else '?'}/refused",
        limit=dynamo_config.recompile_limit,
        entries=examined,
        has_entry=bool(examined),
    )


def _call(frame: Any, *, backend: object, **facts: Any) -> CompileCall:  # noqa: ANN401 (fields of CompileCall)
    return CompileCall(
        code=frame.f_code,
        globals=frame.f_globals,
        locals=frame.f_locals or {},
        closure=frame.closure or (),
        backend=innermost_backend(backend),
        **facts,
    )


def _limit_of(converter: Any) -> int:  # noqa: ANN401 (torch's object for a compiled callable)
    """Return the recompile limit of a compiled callable: its own, if it has one, else the setting."""
    own: int | None = getattr(converter, "_recompile_limit", None)
    return int(dynamo_config.recompile_limit) if own is None else own


def accumulated_limit() -> int:
    """Return the limit on all compilations of one code object, whatever happened to their entries."""
    return int(dynamo_config.accumulated_recompile_limit)


def compiles_alone(converter: Mapping[str, Any]) -> bool:
    """Whether the frame's errors reach the user, because of fullgraph or ``error_on_graph_break``."""
    owner = converter["self"]
    return bool(owner._one_graph or owner._box.error_on_graph_break)


def _entry(raw: Any, recency: int) -> Entry:  # noqa: ANN401 (a C object without a Python type)
    identity = getattr(raw, "compile_id", None)
    text = str(identity) if identity is not None else "?/?"
    order = getattr(identity, "frame_compile_id", None)
    place = order if order is not None else -1
    return Entry(id=text, order=place, manager=raw.guard_manager, backend=raw.backend, recency=recency)


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
    return _ordered(c_eval_frame._debug_get_cache_entry_list(code))


def _ordered(entries: Iterable[Any]) -> tuple[Entry, ...]:
    read = (_entry(raw, recency) for recency, raw in enumerate(entries))
    return tuple(sorted(read, key=lambda entry: entry.order))


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
    """Whether Dynamo skipped a frame because it holds nothing to compile."""
    return reason is not None and "No ops traced" in reason


def skip_reason(result: Any) -> str | None:  # noqa: ANN401 (version dependent)
    """Return why nothing was compiled, if this version says so."""
    return getattr(result, "skip_reason", None)


def operators_of(compile_id: str) -> int | None:
    """Return how many calls the newest graph captured, if the newest metrics are those of ``compile_id``."""
    metrics = utils.get_compilation_metrics()
    if not metrics or str(metrics[-1].compile_id) != compile_id:
        return None
    return metrics[-1].graph_op_count


def resumed_code(code: CodeType) -> CodeType | None:
    """Return the code object that a resume function continues, or None if ``code`` is not a resume function."""
    if not code.co_name.startswith(RESUME_PREFIX):
        return None
    metadata = resume_execution.ContinueExecutionCache.generated_code_metadata.get(code)
    return None if metadata is None else metadata.code


# --- what decides whether a frame is compiled -------------------------------------------------------


def stance() -> str:
    """Return the name of the stance that ``torch.compiler.set_stance`` set."""
    return str(eval_frame._stance.stance)


def has_dispatch_mode() -> bool:
    """Whether a dispatch mode under which Dynamo compiles nothing is active."""
    return torch._C._len_torch_dispatch_stack() > 0 and any(
        not mode.is_infra_mode() for mode in _get_current_dispatch_mode_stack()
    )


def has_function_mode() -> bool:
    """Whether reading an attribute of a tensor would run one of the user's torch-function modes."""
    return torch._C._len_torch_function_stack() > 0


def is_own_wrapper(code: CodeType) -> bool:
    """Whether ``code`` is the function that Dynamo wraps around code that it would not trace by itself."""
    return code.co_name == "inner" and code.co_filename == external_utils.__file__


def is_skip_listed(code: CodeType) -> bool:
    """Whether Dynamo's rules always run this code eagerly (library code that is never traced)."""
    return bool(trace_rules.check(code))


def is_passed_over(code: CodeType) -> bool:
    """Whether Dynamo skips the frames of ``code`` but not those that it calls: a decorator of torch's own."""
    return code is decorators._nonrecursive_disable_wrapper_code or is_skip_listed(code)


def compiled_function(function: object, passed_over: Callable[[CodeType], bool] = is_passed_over) -> object:
    """Return the function whose frame Dynamo compiles when a compiled callable of ``function`` is called.

    ``forward`` under ``torch.no_grad()`` is a wrapper that Dynamo skips. Finding that out is slow: a caller
    that asks often caches the answers and passes a function that reads them.
    """
    # This is on the path of every counted call: a plain function is recognised at once.
    if type(function) is FunctionType and not function.__dict__:
        return function
    target = _target(function)
    while (wrapped := getattr(target, "__wrapped__", None)) is not None:
        code = getattr(target, "__code__", None)
        if code is None or not passed_over(code):
            break
        target = getattr(wrapped, "__func__", wrapped)
    return target


def is_standard_library(code: CodeType) -> bool:
    """Whether ``code`` is Python's own, which computes nothing on tensors."""
    file = code.co_filename
    return file.startswith("<frozen ") or (file.startswith(_STDLIB) and "-packages" not in file[len(_STDLIB) :])


_STDLIB: Final = sysconfig.get_path("stdlib")


def target_code(function: object) -> CodeType | None:
    """Return the code object of what a callable is compiled from, decorators and all."""
    return cast("CodeType | None", getattr(_target(function), "__code__", None))


def is_disabled(function: object) -> bool:
    """Whether ``torch.compiler.disable`` keeps a function from compiling."""
    return bool(getattr(function, "_torchdynamo_disable", False))


@dataclass(frozen=True, slots=True)
class CalledFrame:
    """A frame that was refused before it began, with what Dynamo would have seen."""

    f_code: CodeType
    f_globals: dict[str, Any]
    f_locals: dict[str, Any] | None
    closure: tuple[Any, ...]


def called_frame(function: object, args: tuple[Any, ...], kwargs: dict[str, Any], *, whole: bool) -> CalledFrame | None:
    """Return the frame of a call of ``function``, its locals only if ``whole``; None if it is not Python code."""
    target: Any = compiled_function(function)
    if not isinstance(target, FunctionType):
        return None
    inner = eval_frame.innermost_fn(cast("Callable[..., Any]", function))
    owner = getattr(inner, "__self__", inner if isinstance(inner, torch.nn.Module) else None)
    found: dict[str, Any] | None = None
    if whole:
        with contextlib.suppress(TypeError, ValueError):
            given = args if owner is None else (owner, *args)
            bound = inspect.signature(target, follow_wrapped=False).bind(*given, **kwargs)
            bound.apply_defaults()
            cells = zip(target.__code__.co_freevars, target.__closure__ or (), strict=True)
            found = {**{name: cell.cell_contents for name, cell in cells}, **bound.arguments}
    return CalledFrame(target.__code__, target.__globals__, found, target.__closure__ or ())


def _target(function: object) -> object:
    inner = eval_frame.innermost_fn(cast("Callable[..., Any]", function))
    module = getattr(inner, "__self__", inner)
    if isinstance(module, torch.nn.Module) and _is_module_call(inner, module):
        inner = module.forward
    return getattr(inner, "__func__", inner)


def _is_module_call(inner: object, module: torch.nn.Module) -> bool:
    """Whether ``inner`` is torch's way to call ``module.forward``; a class may have its own ``__call__``."""
    called = type(module).__call__ if inner is module else getattr(inner, "__func__", None)
    # A graph module's class has a __call__ that torch makes for it, whatever class of the user's it derives from.
    return called in _MODULE_CALLS or getattr(called, "__module__", None) == torch.fx.graph_module.__name__


_MODULE_CALLS: Final = (torch.nn.Module.__call__, torch.nn.Module._call_impl, torch.nn.Module._wrapped_call_impl)


def calls_forward(code: CodeType) -> bool:
    """Whether ``code`` is torch's own way from a module to its ``forward``."""
    return any(code is call.__code__ for call in _MODULE_CALLS)


def graphs_of(code: CodeType) -> list[str | None]:
    """Return the graph name of every entry that ``code`` has; None for an entry without a graph."""
    raw = c_eval_frame._debug_get_cache_entry_list(code)
    return [_graph_in(entry.code) for entry in raw]


def _graph_in(code: CodeType) -> str | None:
    return next((name for name in code.co_names if name.startswith(COMPILED_GRAPH_PREFIX)), None)


def reset() -> None:
    """Drop all compiled code in this process, and what Dynamo learned about sizes that change."""
    torch.compiler.reset()


def dynamic_setting() -> bool | None:
    """Return the value of ``torch.compile(dynamic=...)`` for the current compilation; None for automatic."""
    if not dynamo_config.assume_static_by_default:
        return True
    return None if dynamo_config.automatic_dynamic_shapes else False


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
    """Disable subclasses and modes inside: reading a tensor must not run the user's code."""
    return cast("contextlib.AbstractContextManager[Any]", torch._C.DisableTorchFunction())


def invalidation(manager: Any) -> str | None:  # noqa: ANN401 (version dependent)
    """Return why Dynamo discarded an entry's guards, or None if they are valid."""
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
    """Whether autocast, which adds a key to every tensor, is on for a tensor's device on only one side."""
    return ("Autocast" in guard_text) != ("Autocast" in dispatch_keys(tensor))


def subclass_metadata(value: object) -> object:
    """Return the metadata of a wrapper subclass that Dynamo guards; None for any other value."""
    flatten = getattr(value, "__tensor_flatten__", None)
    return flatten()[1] if callable(flatten) else None
