"""Declares a workload of a plain model, from Python. This file does not import torch: building does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from compilescope.errors import UsageError, WorkloadError
from compilescope.wording import listing
from compilescope.workloads.declare import Axis, Workload
from compilescope.workloads.model.input_spec import read_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from compilescope.record import Scalar
    from compilescope.workloads.model.target import ModelTarget


def model_workload(  # noqa: PLR0913 (the options of the command line, each by its name)
    source: object,
    *,
    inputs: Iterable[str] = (),
    sweep: Mapping[str, Iterable[Scalar]] | None = None,
    order: str | None = None,
    targets: Iterable[object] = (),
    compile: str | None = "whole",  # noqa: A002 (the option's name)
    dynamic: bool | None = None,
    fullgraph: bool | None = None,
    backend: str | None = None,
    config: Iterable[str] = (),
    arguments: Mapping[str, str] | None = None,
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    name: str | None = None,
) -> Workload:
    """Declare a model as a workload; ``compilescope report ... --write-workload FILE`` writes such a declaration.

    Args:
        source: a class of ``nn.Module``, a module, a function that builds one, or what names it:
            ``model.py:Net``, relative to the working folder, or ``package.module:Net``.
        inputs: as ``--input`` takes them: ``x=f32[batch,seq,16]``; none for the model's ``example_inputs``.
        sweep: axis name to values, for every axis of the inputs.
        order: in which the points are visited: ``grid``, ``one_at_a_time`` or ``random``.
        targets: what should be compiled; patterns over qualified names, such as ``Net.forward``.
        compile: ``whole``, ``blocks``, or the name of a class or a submodule; None if the program compiles itself.
        dynamic: as ``torch.compile`` takes it.
        fullgraph: as ``torch.compile`` takes it.
        backend: as ``torch.compile`` takes it, by name.
        config: ``FILE.json`` or ``NAME=VALUE``, for a model class of diffusers or transformers.
        arguments: for the constructor, as text.
        device: where the model is built; ``--device`` overrides it.
        dtype: of its floating-point parameters, such as ``bf16``.
        train: whether it stays in training mode, with gradients.
        name: its name in reports.

    Raises:
        UsageError: an input cannot be read, or an axis has no values.
    """
    texts = tuple(inputs)
    given = {axis: tuple(values) for axis, values in (sweep or {}).items()}
    axes = {**(read_inputs(texts).axes if texts else {}), **given}
    if missing := [axis for axis, values in axes.items() if values is None]:
        example = f"sweep={{{missing[0]!r}: (2, 3)}}"
        msg = f"The workload of {_shown(source)} gives no values for {listing(missing)}: {example}."
        raise UsageError(msg)

    def factory(device: str | None = device) -> Callable[..., object]:
        from compilescope.workloads.model import declare_model as models  # noqa: PLC0415 (declaring imports no torch)
        from compilescope.workloads.model.compiling import Compile  # noqa: PLC0415
        from compilescope.workloads.model.target import Construction  # noqa: PLC0415

        target = _target(source)
        built = Construction(tuple(config), dict(arguments or {}), device, dtype, train)
        how = None if compile is None else Compile(compile, dynamic, fullgraph, backend)
        return models.factory(target, built, how, lambda model: models.provider_of(target, model, texts).provider)(
            device
        )

    # A file's own workloads are those whose factory it defines.
    factory.__module__ = sys._getframe(1).f_globals.get("__name__", __name__)  # noqa: SLF001 (who declares decides)
    return Workload(
        name=name or _shown(source).rpartition(":")[2],
        factory=factory,
        axes=tuple(Axis(axis, values or ()) for axis, values in axes.items()),
        targets=tuple(targets),
        order=order,
    )


def _shown(source: object) -> str:
    return source if isinstance(source, str) else getattr(source, "__qualname__", type(source).__qualname__)


def _target(source: object) -> ModelTarget:
    from compilescope.workloads.load import Found, load  # noqa: PLC0415 (as above)
    from compilescope.workloads.locate import WorkloadSource  # noqa: PLC0415
    from compilescope.workloads.model.target import ModelTarget  # noqa: PLC0415

    if not isinstance(source, str):
        return ModelTarget(_shown(source), _shown(source), cast("Any", source))
    module, _, name = source.rpartition(":")
    found = load(WorkloadSource(Path(module) if module.endswith(".py") else module, name or None), as_model=True)
    if not isinstance(found, Found):
        msg = f"{source} is a workload, not a model."
        raise WorkloadError(msg)
    return ModelTarget(found.name, source, cast("Any", found.value), found.home)
