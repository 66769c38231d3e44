"""Inputs that come with a model: ``example_inputs`` beside it, or ``dummy_inputs`` of transformers and diffusers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from compilescope.errors import WorkloadError
from compilescope.wording import listing
from compilescope.workloads.faults import one_line
from compilescope.workloads.model.input_spec import DTYPES
from compilescope.workloads.model.target import signature_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from compilescope.record import Scalar
    from compilescope.workloads.model.target import ModelTarget

_NAME: Final = "example_inputs"
_LIBRARY_NAME: Final = "dummy_inputs"
_SHORT: Final = {long: short for short, long in DTYPES.items()}
_BATCH: Final = "batch"


@dataclass(frozen=True, slots=True)
class ExampleFunction:
    """A function whose parameters are axes and whose result is what ``forward`` takes."""

    name: str
    function: Callable[..., object]
    model: nn.Module

    @property
    def axes(self) -> dict[str, tuple[Scalar, ...] | None]:
        """Its parameters; a default is one value, to which ``--sweep`` or the chosen values add others."""
        return dict.fromkeys(inspect.signature(self.function).parameters)

    def make(self, values: Mapping[str, Scalar], device: str | torch.device) -> dict[str, object]:
        """Return the arguments of ``forward`` at a point.

        Raises:
            WorkloadError: the function returns something that ``forward`` does not take.
        """
        given = self.function(**{name: values[name] for name in self.axes})
        return {name: _moved(value, device) for name, value in as_keywords(self.name, given, self.model).items()}


@dataclass(frozen=True, slots=True)
class Example:
    """Example values, written as ``--input`` takes them.

    Attributes:
        texts: one for each argument.
        sizes: what each axis is in the example.
    """

    texts: tuple[str, ...]
    sizes: Mapping[str, int]


def example_of(target: ModelTarget, model: nn.Module) -> ExampleFunction | Example | None:
    """Return where inputs come from: a function with axes, an example, or None.

    Every size of an example becomes an axis, equal sizes the same one; the trial calls find what the model refuses to
    vary.

    Raises:
        WorkloadError: there is an example, and ``forward`` does not take it.
    """
    for name, found in _candidates(target, model):
        if callable(found) and not isinstance(found, torch.Tensor):
            function = ExampleFunction(name, found, model)
            if function.axes:
                return function
            found = _answer(name, found)  # noqa: PLW2901 (a function without parameters stands for its result)
        arguments = as_keywords(name, found, model)
        if not any(isinstance(value, torch.Tensor) for value in arguments.values()):
            msg = f"{name} holds no tensor; it is a tensor, a tuple or a dict of what forward takes."
            raise WorkloadError(msg)
        return _specifications(name, arguments)
    return None


def _candidates(target: ModelTarget, model: nn.Module) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for holder, name in ((model, f"{type(model).__name__}.{_NAME}"), (target.home, _NAME)):
        value = holder.get(_NAME) if isinstance(holder, Mapping) else getattr(holder, _NAME, None)
        if value is not None:
            found.append((name, value))
    # Of transformers and diffusers; they fit the class that declares them, and often not its subclasses.
    library = type(model).__module__.partition(".")[0] in ("transformers", "diffusers")
    inputs = getattr(model, _LIBRARY_NAME, None) if library else None
    if isinstance(inputs, Mapping) and set(inputs) <= set(signature_of(model).parameters):
        found.append((f"{type(model).__name__}.{_LIBRARY_NAME}", dict(inputs)))
    return found


def _answer(name: str, function: Callable[..., Any]) -> object:
    try:
        return function()
    except Exception as error:
        msg = f"{name} raised {one_line(error)}."
        raise WorkloadError(msg) from error


def as_keywords(name: str, given: object, model: nn.Module) -> dict[str, object]:
    """Return the values of an example as keyword arguments of ``forward``.

    Raises:
        WorkloadError: ``forward`` does not take it.
    """
    arguments = given if isinstance(given, tuple | list) else () if isinstance(given, Mapping) else (given,)
    keywords = dict(given) if isinstance(given, Mapping) else {}
    try:
        bound = signature_of(model).bind_partial(*arguments, **keywords)
    except TypeError as error:
        msg = f"{name} does not fit {type(model).__name__}.forward: {error}."
        raise WorkloadError(msg) from None
    found: dict[str, object] = {}
    for parameter, value in bound.arguments.items():
        kind = bound.signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            msg = f"{name} gives *{parameter} to {type(model).__name__}.forward; only named arguments can be varied."
            raise WorkloadError(msg)
        else:
            found[parameter] = value
    return found


def _specifications(name: str, arguments: Mapping[str, object]) -> Example:
    """Write example values as ``--input`` takes them, with an axis for every size that occurs."""
    tensors = {key: value for key, value in arguments.items() if isinstance(value, torch.Tensor)}
    axes: dict[int, str] = {}
    for key, tensor in tensors.items():
        for place, size in enumerate(tensor.shape):
            first = place == 0 and _BATCH not in axes.values()
            axes.setdefault(int(size), _BATCH if first else f"{key}_{place}")
    written = [f"{key}={_written(tensor, axes)}" for key, tensor in tensors.items()]
    for key, value in arguments.items():
        if key in tensors or value is None:
            continue
        if not isinstance(value, bool | int | float | str):
            msg = f"{name} gives {key} as {type(value).__name__}; give it as a function of the axes, or with --input."
            raise WorkloadError(msg)
        written.append(f"{key}={value!r}")
    return Example(tuple(written), {axis: size for size, axis in axes.items()})


def _written(tensor: torch.Tensor, axes: Mapping[int, str]) -> str:
    dtype = _SHORT.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None:
        msg = f"An example of dtype {tensor.dtype} cannot be varied; the known dtypes are {listing(DTYPES)}."
        raise WorkloadError(msg)
    text = f"{dtype}[{','.join(axes[int(size)] for size in tensor.shape)}]"
    whole = not tensor.dtype.is_floating_point and not tensor.dtype.is_complex and tensor.dtype is not torch.bool
    most = int(tensor.max()) if whole and tensor.numel() and tensor.device.type != "meta" else 0
    return f"{text} < {most + 1}" if most > 1 else text


def _moved(value: object, device: str | torch.device) -> object:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, list | tuple):
        return type(value)(_moved(item, device) for item in value)
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    return value
