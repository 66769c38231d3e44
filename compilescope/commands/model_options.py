"""The options of ``report`` and ``check`` for a source that is a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from compilescope.workloads.model.declare_model import ModelOptions

MODEL_OPTIONS: Final[tuple[Callable[..., Any], ...]] = (
    click.option(
        "--input",
        "input_",
        multiple=True,
        metavar="NAME=SPEC",
        help="An input of a model: x=f32[batch,seq,16], mask=none|bool[batch,seq], scale=0.5,1.0; names in brackets "
        "are axes; several are separated by semicolons.",
    ),
    click.option(
        "--config",
        "config_",
        multiple=True,
        metavar="FILE.json|NAME=VALUE",
        help="Configuration of a model class of diffusers or transformers.",
    ),
    click.option(
        "--compile",
        "compile_",
        metavar="whole|blocks|NAME",
        help="What to compile of a model: all of it, its repeated blocks, or the modules of a class or name.",
    ),
    click.option("--dynamic/--static", default=None, help="Compile a model with dynamic=True or False."),
    click.option("--fullgraph", is_flag=True, default=None, help="Compile a model with fullgraph=True."),
    click.option("--backend", metavar="NAME", help="Backend that compiles a model; torch's default if left out."),
    click.option("--dtype", metavar="DTYPE", help="Dtype of a model's parameters, such as bf16."),
    click.option("--train", is_flag=True, default=None, help="Keep a model in training mode, with gradients."),
    click.option(
        "--write-workload",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write these model options as a workload, a Python file for the repository.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """The model options; None or empty for an option that was not given."""

    input_: tuple[str, ...]
    config_: tuple[str, ...]
    compile_: str | None
    dynamic: bool | None
    fullgraph: bool | None
    backend: str | None
    dtype: str | None
    train: bool | None
    write_workload: Path | None


OF_MODELS: Final = (
    "input_",
    "config_",
    "compile_",
    "dynamic",
    "fullgraph",
    "backend",
    "dtype",
    "train",
    "write_workload",
)


def model_options(request: ModelRequest) -> ModelOptions | None:
    """Return the model options; None if none was given."""
    if all(getattr(request, name) in (None, ()) for name in OF_MODELS):
        return None
    # A process that only reads recordings must not import torch.
    from compilescope.workloads.model.compiling import Compile  # noqa: PLC0415
    from compilescope.workloads.model.declare_model import ModelOptions  # noqa: PLC0415
    from compilescope.workloads.model.target import Construction  # noqa: PLC0415

    return ModelOptions(
        inputs=request.input_,
        construction=Construction(config=request.config_, dtype=request.dtype, train=bool(request.train)),
        compile=Compile(request.compile_, request.dynamic, request.fullgraph, request.backend),
    )
