"""Declares workloads: a factory of a callable, and the axes along which its inputs vary.

This file does not import torch: declaring costs nothing, building does.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, overload

from compilescope.errors import WorkloadError
from compilescope.wording import guess, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from compilescope.record import Scalar

_DEVICE = "device"


@dataclass(frozen=True, init=False)
class Axis:
    """One thing that varies between calls: a resolution, a text length, a batch size.

    Attributes:
        name: the keyword argument that receives the values.
        values: in the order in which a sweep visits them; a value may repeat.
    """

    name: str
    values: tuple[Scalar, ...]

    def __init__(self, name: str, values: Iterable[Scalar]) -> None:
        """Declare an axis.

        Raises:
            WorkloadError: the name is not an identifier, there are no values, or one is not a bool, a finite number, a
                string or None.
        """
        if not name.isidentifier():
            msg = f"Axis {name!r} needs a name that can be a keyword argument."
            raise WorkloadError(msg)
        if isinstance(values, str):
            msg = f"Axis {name!r} needs a list of values, not the string {values!r}."
            raise WorkloadError(msg)
        held = tuple(values)
        if not held:
            msg = f"Axis {name!r} has no values."
            raise WorkloadError(msg)
        for value in held:
            if not _is_scalar(value):
                msg = f"Axis {name!r} has the value {value!r}; values are bools, finite numbers, strings or None."
                raise WorkloadError(msg)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", held)


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


@dataclass(frozen=True)
class Workload:
    """A model with its inputs, as a factory of a callable that takes the axes as keyword arguments.

    Attributes:
        name: its name in reports.
        factory: builds the callable; called once a sweep. The command line may give its parameters
            values; all but ``device`` need a default.
        axes: what varies.
        targets: what should be compiled: functions, classes, modules, code objects or patterns.
        plain: whether it wraps a function that was not declared as a workload; such a function takes its axes from the
            command line.
        setup: one line for the head of the report: what was compiled, and how; None if the program does it.
        remarks: sentences that the report shows with its sweep.
        order: in which its points are visited, as ``--order`` takes it; None for the order of the settings.
    """

    name: str
    factory: Callable[..., object]
    axes: tuple[Axis, ...] = ()
    targets: tuple[object, ...] = ()
    plain: bool = False
    setup: str | None = None
    remarks: tuple[str, ...] = ()
    order: str | None = None

    def __post_init__(self) -> None:
        """Check the declaration.

        Raises:
            WorkloadError: two axes share a name, or the factory needs an argument without a default.
        """
        seen: set[str] = set()
        for axis in self.axes:
            if axis.name in seen:
                msg = f"Workload {self.name!r} declares the axis {axis.name!r} twice."
                raise WorkloadError(msg)
            seen.add(axis.name)
        extra = [name for name in _needed(self.factory) if name != _DEVICE]
        if extra:
            msg = (
                f"The factory of workload {self.name!r} needs {listing(extra)}; "
                "every parameter of a factory but `device` needs a default."
            )
            raise WorkloadError(msg)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the factory, as if it had not been decorated."""
        return self.factory(*args, **kwargs)

    @property
    def defaults(self) -> dict[str, object]:
        """The parameters of the factory that have a default, with that default."""
        return {p.name: p.default for p in _parameters(self.factory) or [] if p.default is not p.empty}

    def build(self, arguments: Mapping[str, Scalar] = MappingProxyType({})) -> Callable[..., object]:
        """Build the model and return the callable that a sweep calls.

        Args:
            arguments: for parameters of the factory, including ``device``.

        Raises:
            WorkloadError: the factory has no such parameter, needs a device that is not given, or
                returns something that cannot be called with the axes.
            Exception: whatever the factory raises.
        """
        for name, value in arguments.items():
            if not _accepts(self.factory, name):
                has = [parameter.name for parameter in _parameters(self.factory) or []]
                rest = f"; it has {listing(has)}" if has else ""
                msg = f"Workload {self.name!r} cannot take {name}={value}: its factory has no parameter {name}{rest}."
                raise WorkloadError(msg + guess(name, has))
        if _DEVICE in _needed(self.factory) and _DEVICE not in arguments:
            msg = f"The factory of workload {self.name!r} needs a device: give one with --device."
            raise WorkloadError(msg)
        built = self.factory(**arguments)
        if not callable(built):
            msg = (
                f"The factory of workload {self.name!r} returned {type(built).__name__}, which cannot be called; "
                "it returns a callable that takes the axes as keyword arguments."
            )
            raise WorkloadError(msg)
        check_call(self.name, built, [axis.name for axis in self.axes])
        return built


def check_call(workload_name: str, call: Callable[..., object], axes: Iterable[str]) -> None:
    """Check that ``call`` can be called with the axes as keyword arguments and nothing else.

    Raises:
        WorkloadError: it lacks an axis, or needs an argument that is not an axis.
    """
    names = list(axes)
    unknown = [name for name in names if not _accepts(call, name)]
    if unknown:
        msg = f"The callable of workload {workload_name!r} does not take the axis {listing(unknown)}."
        raise WorkloadError(msg)
    missing = [name for name in _needed(call) if name not in names]
    if missing:
        given = f"its axes are {listing(names)}" if names else "it has no axes"
        msg = f"The callable of workload {workload_name!r} needs {listing(missing)}, but {given}."
        raise WorkloadError(msg)


def _parameters(call: Callable[..., object]) -> list[inspect.Parameter] | None:
    """Return the parameters of ``call``, or None if Python does not know (some builtins)."""
    try:
        return list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return None


def _needed(call: Callable[..., object]) -> list[str]:
    """Return the names of the required parameters of ``call``."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter.name
        for parameter in _parameters(call) or []
        if parameter.default is parameter.empty and parameter.kind not in variadic
    ]


def _accepts(call: Callable[..., object], name: str) -> bool:
    """Return whether ``call`` takes ``name`` as a keyword; True if Python does not know."""
    parameters = _parameters(call)
    if parameters is None:
        return True
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD or (parameter.name == name and parameter.kind in by_keyword)
        for parameter in parameters
    )


@overload
def workload(factory: Callable[..., object], /) -> Workload: ...


@overload
def workload(
    *, axes: Iterable[Axis] = (), targets: Iterable[object] = (), name: str | None = None
) -> Callable[[Callable[..., object]], Workload]: ...


def workload(
    factory: Callable[..., object] | None = None,
    /,
    *,
    axes: Iterable[Axis] = (),
    targets: Iterable[object] = (),
    name: str | None = None,
) -> Workload | Callable[[Callable[..., object]], Workload]:
    """Declare the decorated factory as a workload.

    The factory builds the model once and returns a callable that takes every axis as a keyword
    argument and runs the model on inputs of that point. Its own parameters have defaults, which
    ``compilescope report --set NAME=VALUE`` replaces; ``--device`` gives the parameter ``device``.

    Args:
        factory: if the decorator is written without parentheses: a workload without axes.
        axes: what varies between calls.
        targets: what should be compiled.
        name: its name in reports; the factory's name by default.

    Raises:
        WorkloadError: the declaration contradicts itself.
    """
    held = tuple(axes)
    wanted = tuple(targets)

    def declare(factory: Callable[..., object]) -> Workload:
        called = name or getattr(factory, "__name__", None) or type(factory).__name__
        return Workload(name=called, factory=factory, axes=held, targets=wanted)

    return declare if factory is None else declare(factory)
