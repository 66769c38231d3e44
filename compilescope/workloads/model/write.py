"""Writes a command line as a workload, a file to commit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from compilescope.workloads.model.declare_model import Declared, ModelOptions

_WIDTH: Final = 110
_QUOTES: Final = 6


def workload_text(path: Path, source: str, declared: Declared, options: ModelOptions) -> str:
    """Return the text of a Python file that declares the workload.

    Args:
        path: of the file.
        source: the text that names the model, as typed.
        declared: the workload with its axes.
        options: the rest of the command line.
    """
    workload = declared.workload
    how = options.construction
    compiled = declared.compile
    arguments: dict[str, object] = {
        "inputs": declared.inputs,
        "sweep": {axis.name: axis.values for axis in workload.axes},
        "order": workload.order,
        "targets": tuple(f"{target.__qualname__}.forward" for target in workload.targets if isinstance(target, type)),
        "compile": None if compiled is None else compiled.what or "whole",
        **({} if compiled is None else compiled.options),
        "config": how.config,
        "arguments": dict(how.arguments),
        "device": how.device,
        "dtype": how.dtype,
        "train": how.train,
    }
    given = {name: value for name, value in arguments.items() if value not in (None, (), {}, False)}
    if compiled is not None and compiled.dynamic is False:
        given["dynamic"] = False
    name = re.sub(r"\W", "_", workload.name).lower()
    lines = "\n".join((f"    {_literal(source)},", *_arguments(given)))
    said = f'"""Sweeps {source} under torch.compile.\n\n    compilescope check {path} --no-shape-recompile\n"""'
    # A path may contain anything; a docstring may not.
    said = said if said.count('"') == _QUOTES and "\\" not in said else '"""Sweeps a model under torch.compile."""'
    return f"{said}\n\nfrom compilescope import model_workload\n\n{name} = model_workload(\n{lines}\n)\n"


def _arguments(given: Mapping[str, object]) -> Iterator[str]:
    for name, value in given.items():
        line = f"    {name}={_literal(value)},"
        if len(line) <= _WIDTH or not isinstance(value, tuple | dict):
            yield line
        elif isinstance(value, dict):
            items = (f"        {_literal(key)}: {_literal(item)}," for key, item in value.items())
            yield from (f"    {name}={{", *items, "    },")
        else:
            yield from (f"    {name}=(", *(f"        {_literal(item)}," for item in value), "    ),")


def _literal(value: object) -> str:
    """Return Python source for a value, with the quotes that formatters use."""
    if isinstance(value, str):
        shown = repr(value)
        return shown if '"' in shown or "\\'" in shown else f'"{shown[1:-1]}"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        items = ", ".join(map(_literal, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    return repr(value)
