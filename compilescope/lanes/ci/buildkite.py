"""Buildkite: the steps of a pipeline."""

from __future__ import annotations

import re
import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.lanes.ci.document import items, lines, table, tables, text, values
from compilescope.lanes.ci.matrix import agrees, combinations, title
from compilescope.lanes.ci.variables import resolved
from compilescope.lanes.reading import Script

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from compilescope.lanes.ci.document import Table
    from compilescope.lanes.ci.matrix import Combination

_PLACEHOLDER: Final = re.compile(r"\{\{\s*matrix(?:\.([\w-]+))?\s*\}\}")
_ALONE: Final = ""
"""The axis name for a matrix that is a plain list."""
_LABELS: Final = ("label", "name", "key", "group")


def is_pipeline(document: object) -> bool:
    """Whether a document is a Buildkite pipeline."""
    return isinstance(document, list) or isinstance(table(document).get("steps"), list)


def pipeline_scripts(document: object, file: str, root: Path) -> Iterator[Script]:
    """Yield the scripts of a pipeline.

    Args:
        document: the parsed file.
        file: its name in the report.
        root: of the repository.
    """
    pipeline: Table = {"steps": document} if isinstance(document, list) else table(document)
    always = {"CI": "true", "BUILDKITE": "true", "BUILDKITE_BUILD_CHECKOUT_PATH": str(root)}
    yield from _steps(pipeline, file, root, {**always, **values(pipeline.get("env"))})


def _steps(group: Table, name: str, root: Path, environment: Mapping[str, str]) -> Iterator[Script]:
    for step in tables(group.get("steps")):
        if _is_skipped(step):
            continue
        label = next((text(step[key]) for key in _LABELS if step.get(key)), "")
        inside = {**environment, **values(step.get("env"))}
        yield from _steps(step, name, root, inside)
        commands = lines(step.get("commands", step.get("command")))
        for combination in _matrix(step.get("matrix")):
            for share in _shares(step.get("parallelism")):
                source = title(
                    _fill(f"{name}: {label}" if label else name, combination), {**_named(combination), **share}
                )
                variables = resolved({key: _fill(value, combination) for key, value in {**inside, **share}.items()})
                script = _go(step) + _unescaped(_fill(commands, combination))
                yield Script(script, root, MappingProxyType(dict(variables)), source)


def _is_skipped(step: Table) -> bool:
    """Whether a step is skipped; ``skip`` may hold the reason."""
    return text(step.get("skip")) not in {"", "false"}


def _go(step: Table) -> str:
    # A key that pipelines of the vLLM projects add for their templates.
    folder = text(step.get("working_dir"))
    return f"cd {shlex.quote(folder)}\n" if folder else ""


def _matrix(matrix: object) -> list[Combination]:
    """Return the combinations of a step's matrix, with its adjustments added and skipped ones removed."""
    if isinstance(matrix, list):
        return list(combinations({_ALONE: matrix}))
    setup = table(matrix).get("setup")
    axes = table(setup) if isinstance(setup, dict) else {_ALONE: setup} if setup is not None else {}
    found = list(combinations(axes))
    for adjustment in tables(table(matrix).get("adjustments")):
        chosen = adjustment.get("with")
        part: Combination = table(chosen) if isinstance(chosen, dict) else {_ALONE: items(chosen)[0] if chosen else ""}
        if _is_skipped(adjustment):
            found = [one for one in found if not agrees(one, part)]
        elif not any(agrees(one, part) for one in found):
            found.append(part)
    return found


def _named(combination: Combination) -> Combination:
    return {name or "matrix": value for name, value in combination.items()}


def _shares(parallelism: object) -> list[dict[str, str]]:
    """Return the variables of each of a step's parallel jobs."""
    if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism <= 1:
        return [{}]
    count = str(parallelism)
    return [
        {"BUILDKITE_PARALLEL_JOB": str(number), "BUILDKITE_PARALLEL_JOB_COUNT": count} for number in range(parallelism)
    ]


def _fill(written: str, combination: Combination) -> str:
    return _PLACEHOLDER.sub(lambda found: text(combination.get(found[1] or _ALONE, found[0])), written)


def _unescaped(written: str) -> str:
    """Return the text that the step's shell gets: ``$$NAME`` escapes a ``$`` from Buildkite's own values."""
    return re.sub(r"\$\$(?=[\w{(])", "$", written)
