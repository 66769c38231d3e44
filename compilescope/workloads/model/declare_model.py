"""Makes a workload of a model: builds it once to find its inputs; the sweep builds it again."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import itertools
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from compilescope.errors import UsageError, WorkloadError
from compilescope.wording import guess, listing
from compilescope.workloads.declare import Axis, Workload
from compilescope.workloads.faults import one_line
from compilescope.workloads.model.compiling import Compile, compiled, described, parts
from compilescope.workloads.model.default_axes import Search
from compilescope.workloads.model.examples import Example, example_of
from compilescope.workloads.model.input_spec import read_inputs
from compilescope.workloads.model.make_inputs import make
from compilescope.workloads.model.suggest import blank
from compilescope.workloads.model.target import Construction, FunctionModel, build, of_inputs, original_of, signature_of
from compilescope.workloads.points import ONE_AT_A_TIME, override, read_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import nn

    from compilescope.record import Scalar
    from compilescope.workloads.model.default_axes import Chosen
    from compilescope.workloads.model.input_spec import Inputs, Size
from compilescope.workloads.model.target import ModelTarget


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The command line's model options.

    Attributes:
        inputs: as ``--input`` gives them; none for the model's own examples.
        construction: how to build the model.
        compile: what to compile, and how.
    """

    inputs: tuple[str, ...] = ()
    construction: Construction = field(default_factory=Construction)
    compile: Compile = field(default_factory=Compile)


class Provider(Protocol):
    """Where inputs come from."""

    @property
    def axes(self) -> Mapping[str, tuple[Scalar, ...] | None]:
        """Name to values; None for an axis without values yet."""

    def make(self, values: Mapping[str, Scalar], device: str | torch.device) -> dict[str, object]:
        """Return the arguments of ``forward`` at a point."""


@dataclass(frozen=True, slots=True)
class SpecifiedInputs:
    """Inputs that ``--input`` describes."""

    inputs: Inputs

    @property
    def axes(self) -> Mapping[str, tuple[Scalar, ...] | None]:
        """Name to values; None for an axis without values yet."""
        return self.inputs.axes

    def make(self, values: Mapping[str, Scalar], device: str | torch.device) -> dict[str, object]:
        """Return the arguments of ``forward`` at a point."""
        return make(self.inputs, values, device=device)


@dataclass(frozen=True, slots=True)
class Declared:
    """A workload, and what its declaration found.

    Attributes:
        workload: ready for a sweep.
        inputs: the specifications in use; none if the user's function makes the inputs.
        compile: what to compile and how; None if the program does it.
    """

    workload: Workload
    inputs: tuple[str, ...] = ()
    compile: Compile | None = None


def declare(
    target: ModelTarget,
    options: ModelOptions,
    values: Mapping[str, Sequence[str]],
    watched: Callable[[], AbstractContextManager[Any]],
) -> Declared:
    """Build the model once and call it eagerly, to find its inputs, axes and parts.

    Args:
        target: what names the model.
        options: the command line's model options.
        values: axis name to values, as text, of ``--sweep``.
        watched: observes the trial calls; it yields an object with a ``recording``.

    Raises:
        WorkloadError: the model cannot be built, or raises at the first point.
        UsageError: an option does not fit it.
    """
    target = of_inputs(target, [spec.name for spec in read_inputs(options.inputs).specs])
    model = _for_trial(target, options.construction)
    given = provider_of(target, model, options.inputs)
    provider = given.provider
    axes = _given_axes(target, provider, values)
    _check_sizes(provider, axes)
    if options.compile.what is not None and model is not original_of(model):
        msg = f"{target.source} is compiled already: leave out --compile."
        raise UsageError(msg)
    trial = _Trial(model, provider, options.construction)
    with watched() as scope:
        chosen = _search(trial, axes, given.sizes).choose()
    if isinstance(chosen, str):
        raise WorkloadError(_not_run(target, trial, [name for name, given in axes.items() if given is None]))
    remarks = list(_left_out(chosen))
    own = options.compile.what is None and bool(scope.recording.compilations)
    how = _usable(options.compile, options.construction)
    modules = () if own else parts(model, how.what)
    workload = Workload(
        name=target.name,
        factory=factory(target, options.construction, None if own else how, lambda _: provider),
        axes=tuple(Axis(name, _and_back(chosen.axes[name], given=name in values)) for name in axes),
        targets=tuple(dict.fromkeys(_meant(module) for module in modules)),
        setup=_setup(
            "as the program compiles it" if own else described(modules, how), options.construction, given.said
        ),
        remarks=tuple(remarks),
        # The chosen values go up, down and back, one axis after the other.
        order=ONE_AT_A_TIME if any(len(chosen.axes[name]) > 1 and name not in values for name in axes) else None,
    )
    return Declared(workload, given.texts, None if own else how)


def _meant(module: nn.Module) -> object:
    """Return what is meant to be compiled: the class of a module, or the function in its place."""
    return module.function if isinstance(module, FunctionModel) else type(module)


def _left_out(chosen: Chosen) -> Iterator[str]:
    """Say which values of each axis the model itself refuses, and what it raised at the first of them."""
    for axis in chosen.axes:
        refused = [(value, said) for name, value, said in chosen.refused if name == axis]
        if refused:
            values = listing((str(value) for value, _ in refused), last="or")
            yield f"{axis} is not {values} in this sweep: the model itself raises {refused[0][1]}"


def _and_back(values: tuple[Scalar, ...], *, given: bool) -> tuple[Scalar, ...]:
    """Return the chosen values with the first repeated at the end: the next axis varies from the first point."""
    return values if given or len(values) == 1 else (*values, values[0])


def _usable(how: Compile, construction: Construction) -> Compile:
    """Return ``how`` with the backend that works on ``meta``, where no code can be generated."""
    return dataclasses.replace(how, backend=how.backend or ("eager" if construction.device == "meta" else None))


def _for_trial(target: ModelTarget, how: Construction) -> nn.Module:
    """Return a model whose calls do not affect the observed one."""
    model = build(target, how)
    if model is target.value:
        with contextlib.suppress(Exception):  # a model that cannot be copied is tried itself
            return copy.deepcopy(model)
    return model


@dataclass(frozen=True, slots=True)
class Given:
    """The inputs of a model.

    Attributes:
        provider: where they come from.
        texts: as ``--input`` takes them; none if the user's function makes them.
        sizes: of the axes, if an example has them.
        said: what to say about inputs that come with the model.
    """

    provider: Provider
    texts: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    said: str = ""


def provider_of(target: ModelTarget, model: nn.Module, texts: tuple[str, ...]) -> Given:
    """Return where the inputs of a model come from.

    Raises:
        UsageError: they are not described, or described wrongly.
    """
    if texts:
        inputs = read_inputs(texts)
        _check_names(target, model, [spec.name for spec in inputs.specs])
        return Given(SpecifiedInputs(inputs), texts)
    found = example_of(target, model)
    if found is None:
        raise UsageError(_blanks(target, model))
    if isinstance(found, Example):
        return Given(
            SpecifiedInputs(read_inputs(found.texts)), found.texts, found.sizes, f"inputs {'; '.join(found.texts)}"
        )
    return Given(found, said=f"inputs from {found.name}")


def _check_names(target: ModelTarget, model: nn.Module, names: Sequence[str]) -> None:
    parameters = signature_of(model).parameters
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in names:
        if name not in parameters and not takes_any:
            said = guess(name, parameters) or f" It takes {listing(parameters)}."
            msg = f"{target.source} has no input {name!r}.{said}"
            raise UsageError(msg)
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.kind not in variadic]
    if missing := [name for name in needed if name not in names]:
        msg = f"{target.source} needs {listing(missing)}: add {' '.join(_blank(parameters[one]) for one in missing)}"
        raise UsageError(msg)


def _blanks(target: ModelTarget, model: nn.Module) -> str:
    """Return the message that asks for inputs, with the command to fill in."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = [p for p in signature_of(model).parameters.values() if p.kind not in variadic]
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
    # If all are optional, as in transformers, one of them is still the main one.
    main = getattr(original_of(model), "main_input_name", None)
    shown = needed or [parameter for parameter in parameters if parameter.name == main] or parameters[:1]
    command = " ".join(("compilescope report", shlex.quote(target.source), *map(_blank, shown)))
    takes = listing(parameter.name for parameter in parameters)
    return (
        f"{target.source} takes {takes}; say what they are, for example:\n  {command}\n"
        "Names in brackets are axes that vary; fill in the numbers and dtypes."
    )


def _blank(parameter: inspect.Parameter) -> str:
    kind = parameter.annotation
    return blank(parameter.name, kind if isinstance(kind, str) else getattr(kind, "__name__", ""))


def _given_axes(
    target: ModelTarget, provider: Provider, values: Mapping[str, Sequence[str]]
) -> dict[str, tuple[Scalar, ...] | None]:
    """Return every axis with its values from the command line, or None."""
    open_axes = [Axis(name, [0]) for name, given in provider.axes.items() if given is None]
    known = [Axis(name, given) for name, given in provider.axes.items() if given is not None]
    # This knows the names of axes that get their values later, too.
    override([*open_axes, *known], values, where=target.source)
    kept = override(known, {name: texts for name, texts in values.items() if name in {a.name for a in known}}, where="")
    found: dict[str, tuple[Scalar, ...] | None] = {axis.name: axis.values for axis in kept}
    for axis in open_axes:
        texts = values.get(axis.name)
        found[axis.name] = None if texts is None else tuple(read_value(text) for text in texts)
    return {name: found[name] for name in provider.axes}


def _check_sizes(provider: Provider, axes: Mapping[str, tuple[Scalar, ...] | None]) -> None:
    """Find a size that is negative, or not a number, before anything runs.

    Raises:
        UsageError: there is one.
    """
    given = {name: values for name, values in axes.items() if values is not None}
    first = {name: values[0] for name, values in given.items()}
    points = [{**first, name: value} for name, values in given.items() for value in values]
    for size, point in itertools.product(_sizes(provider), points):
        if set(size.axes) <= set(point):
            size.at(point)


def _sizes(provider: Provider) -> list[Size]:
    tensors = provider.inputs.tensors if isinstance(provider, SpecifiedInputs) else ()
    return [size for tensor in tensors for size in tensor.sizes if size.axes]


@dataclass(slots=True)
class _Trial:
    """Calls an unchanged model, and keeps the first exception."""

    model: nn.Module
    provider: Provider
    how: Construction
    raised: str = ""
    at: dict[str, Scalar] = field(default_factory=dict)

    def runs(self, values: Mapping[str, Scalar]) -> str | None:
        """Return what the model raises at a point; None if it runs."""
        try:
            _call(self.model, self.model, self.provider, self.how)(**values)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 (the user's model may raise anything)
            said = one_line(error)
            if not self.raised:
                self.raised, self.at = said, dict(values)
            return said
        return None


def _search(trial: _Trial, axes: Mapping[str, tuple[Scalar, ...] | None], example: Mapping[str, int]) -> Search:
    widths = {int(size): name for name, held in trial.model.named_parameters() for size in held.shape if size > 1}
    return Search(
        free=[name for name, given in axes.items() if given is None],
        given={name: given for name, given in axes.items() if given is not None},
        sizes=_sizes(trial.provider),
        widths=widths,
        runs=trial.runs,
        start=example,
    )


def _not_run(target: ModelTarget, trial: _Trial, free: Sequence[str]) -> str:
    at = ", ".join(f"{name}={value}" for name, value in trial.at.items())
    said = f"{target.source} raised {trial.raised} {f'at {at} ' if at else ''}without torch.compile"
    if free:
        return f"{said}; give values that it accepts: {' '.join(f'--sweep {name}=V1,V2' for name in free)}."
    return f"{said}: check --input and --sweep."


def factory(
    target: ModelTarget, how: Construction, how_compiled: Compile | None, inputs: Callable[[nn.Module], Provider]
) -> Callable[..., Callable[..., object]]:
    """Return a factory that builds the model, compiles it, and returns the call for a point.

    Args:
        target: what names the model.
        how: how to build it.
        how_compiled: what to compile; None for nothing.
        inputs: returns where the inputs of the model come from.
    """

    def build_model(device: str | None = how.device) -> Callable[..., object]:
        chosen = dataclasses.replace(how, device=device)
        model = build(target, chosen)
        called = model if how_compiled is None else compiled(model, how_compiled)
        return _call(model, called, inputs(model), chosen)

    return build_model


def _call(
    model: nn.Module, called: Callable[..., object], provider: Provider, how: Construction
) -> Callable[..., object]:
    device = how.device or _device_of(model)

    def call(**axes: Scalar) -> object:
        with contextlib.nullcontext() if how.train else torch.no_grad():
            return called(**provider.make(axes, device))

    return call


def _device_of(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _setup(compiled: str, how: Construction, inputs: str) -> str:
    mode = "training mode" if how.train else "evaluation mode, no gradients"
    return "; ".join(filter(None, (compiled, mode, inputs)))
