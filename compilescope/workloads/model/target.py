"""Builds the model that a source names: a class, an instance, or a function that returns one."""

from __future__ import annotations

import inspect
import json
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import nn

from compilescope.errors import UsageError, WorkloadError
from compilescope.wording import guess, listing
from compilescope.workloads.faults import one_line
from compilescope.workloads.model.input_spec import DTYPES
from compilescope.workloads.points import read_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SEED: Final = 0
_META: Final = frozenset({"_class_name", "_diffusers_version", "transformers_version", "architectures", "model_type"})
"""Keys of a configuration file that describe the file, not the model."""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """The name and value of a model.

    Attributes:
        name: its name in reports.
        source: the text of the command line that names it.
        value: a class of modules, a module, or a function that returns one.
        home: the module in which it was found; its ``example_inputs`` may be used.
    """

    name: str
    source: str
    value: type[nn.Module] | nn.Module | Callable[..., object]
    home: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Construction:
    """How to build it.

    Attributes:
        config: ``FILE.json`` or ``NAME=VALUE``, for the configuration of a class of diffusers or transformers.
        arguments: for the constructor or the function, as text.
        device: of its parameters; None for the default device.
        dtype: of its floating-point parameters; None keeps them as they are.
        train: whether it keeps the mode in which it was built; else it is put into evaluation mode.
    """

    config: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None
    dtype: str | None = None
    train: bool = False


class FunctionModel(nn.Module):
    """A function that is called with the inputs itself, in the place of a model."""

    def __init__(self, function: Callable[..., object]) -> None:
        """Hold the function; a module has no parameters then."""
        super().__init__()
        self.forward = function
        self.function = function


def of_inputs(target: ModelTarget, names: Sequence[str]) -> ModelTarget:
    """Return a target whose function is not one that builds a model but takes the inputs of these names itself."""
    parameters = None if isinstance(target.value, type | nn.Module) else _parameters(target.value)
    if not names or not parameters or not set(names) <= set(parameters):
        return target
    return replace(target, value=FunctionModel(cast("Callable[..., object]", target.value)))


def original_of(model: nn.Module) -> nn.Module:
    """Return the original of a model that ``torch.compile`` returned; else ``model`` itself."""
    original = getattr(model, "_orig_mod", model)  # the name under which torch documents it
    return original if isinstance(original, nn.Module) else model


def signature_of(model: nn.Module) -> inspect.Signature:
    """Return what ``forward`` takes."""
    return inspect.signature(original_of(model).forward)


def build(target: ModelTarget, how: Construction) -> nn.Module:
    """Build the model with seeded random weights.

    Raises:
        WorkloadError: it cannot be built as asked; the message says what is missing.
        UsageError: an option does not fit it.
    """
    torch.manual_seed(_SEED)
    device = _device(how.device)
    try:
        if isinstance(target.value, nn.Module):
            _refuse_arguments(target, how)
            built: object = target.value
        else:
            with device or torch.device("cpu"):
                built = _called(target, how)
        model = _as_module(target, built)
        if device is not None:
            model = model.to(device)
        if how.dtype is not None:
            model = model.to(_dtype(how.dtype))
    except (WorkloadError, UsageError):
        raise
    except (Exception, SystemExit) as error:
        raise WorkloadError(_not_built(target, error)) from error
    return model if how.train else model.eval()


def _as_module(target: ModelTarget, built: object) -> nn.Module:
    if not isinstance(built, nn.Module):
        msg = f"{target.source} returned {type(built).__name__}, which is not an nn.Module."
        raise WorkloadError(msg)
    return built


def _called(target: ModelTarget, how: Construction) -> object:
    make: Any = target.value
    config = _config(how.config)
    given = {name: read_value(text, like=_default(make, name)) for name, text in how.arguments.items()}
    if how.device is not None and "device" in (_parameters(make) or {}):
        given["device"] = how.device
    _check_arguments(target, {*config, *given} if not hasattr(make, "config_class") else set(given))
    if getattr(make, "config_class", None) is not None:
        return make(make.config_class(**{**config, **given}))
    if hasattr(make, "from_config") and config:
        return make.from_config({**config, **given})
    return make(**{**config, **given})


def _config(texts: tuple[str, ...]) -> dict[str, object]:
    """Read ``--config``: JSON files and single values; later ones override earlier ones."""
    read: dict[str, object] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if equals and name.isidentifier():
            read[name] = _literal(value)
            continue
        try:
            loaded = json.loads(Path(text).read_text(encoding="utf-8"))
        except OSError as error:
            msg = f"--config {text!r} is neither NAME=VALUE nor a file that can be read: {error.strerror or error}."
            raise UsageError(msg) from None
        except ValueError as error:
            msg = f"--config {text} is not valid JSON: {error}."
            raise UsageError(msg) from None
        if not isinstance(loaded, dict):
            msg = f"--config {text} holds {type(loaded).__name__}, not an object of names and values."
            raise UsageError(msg)
        read |= {key: value for key, value in loaded.items() if key not in _META}
    return read


def _literal(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return read_value(text)


def _check_arguments(target: ModelTarget, given: set[str]) -> None:
    """Report missing or unknown arguments before Python does.

    Raises:
        WorkloadError: the constructor needs an argument that is not given.
        UsageError: it takes no argument with that name.
    """
    parameters = _parameters(target.value)
    if parameters is None:
        return
    kinds = {parameter.kind for parameter in parameters.values()}
    unknown = sorted(given - set(parameters))
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        has = f" It takes {listing(parameters)}." if parameters else " It takes no arguments."
        msg = f"{target.source} does not take {listing(unknown)}.{guess(unknown[0], parameters) or has}"
        raise UsageError(msg)
    if hasattr(target.value, "config_class"):
        return
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.kind not in variadic]
    missing = [name for name in missing if name not in given]
    if missing:
        options = " ".join(f"--set {name}=VALUE" for name in missing)
        what = "" if isinstance(target.value, type) else " (a function is taken for one that builds a model)"
        msg = f"{target.source} needs {listing(missing)} to be built{what}: give {options}."
        raise WorkloadError(msg)


def _parameters(make: object) -> dict[str, inspect.Parameter] | None:
    try:
        return dict(inspect.signature(make).parameters)  # type: ignore[arg-type]  # what is not callable raises TypeError
    except (TypeError, ValueError):
        return None


def _default(make: object, name: str) -> object:
    parameter = (_parameters(make) or {}).get(name)
    return None if parameter is None or parameter.default is parameter.empty else parameter.default


def _refuse_arguments(target: ModelTarget, how: Construction) -> None:
    for option, given in (("--set", how.arguments), ("--config", how.config)):
        if given:
            msg = f"{option} does nothing for {target.source}: it is built already."
            raise UsageError(msg)


def _device(name: str | None) -> torch.device | None:
    if name is None:
        return None
    try:
        return torch.device(name)
    except RuntimeError as error:
        msg = f"--device {name!r} is not a device: {str(error).splitlines()[0]}"
        raise UsageError(msg) from None


def _dtype(name: str) -> torch.dtype:
    full = DTYPES.get(name, name)
    dtype = getattr(torch, full, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        msg = f"--dtype {name!r} is not a floating-point dtype such as bf16.{guess(name, DTYPES)}"
        raise UsageError(msg)
    return dtype


def _not_built(target: ModelTarget, error: BaseException) -> str:
    said = f"{target.source} cannot be built: {one_line(error)}."
    if any(frame.name == "from_pretrained" for frame in traceback.extract_tb(error.__traceback__)):
        said += " It loads weights; name the class itself with --config FILE.json, which gives it random ones."
    return said
