"""GitLab CI: the jobs of a pipeline."""

from __future__ import annotations

import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.lanes.ci.document import Reference, items, lines, load, table, tables, text, values
from compilescope.lanes.ci.matrix import combinations, title
from compilescope.lanes.ci.variables import resolved
from compilescope.lanes.lane import Unread
from compilescope.lanes.reading import Script
from compilescope.wording import listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from compilescope.lanes.ci.document import Table

_GLOBAL: Final = frozenset(
    {"default", "variables", "stages", "include", "workflow", "image", "services", "cache", "spec"}
)
"""Keys that are not jobs."""
_DEPTH: Final = 11
"""How deep GitLab lets templates extend each other."""


def is_pipeline(document: object) -> bool:
    """Whether a document is a GitLab pipeline."""
    pipeline = table(document)
    return "include" in pipeline or any({"script", "extends", "trigger"} & job.keys() for _, job in _jobs(pipeline))


def pipeline_scripts(document: object, file: str, root: Path) -> Iterator[Script | Unread]:
    """Yield the scripts of a pipeline.

    Args:
        document: the parsed file.
        file: its name in the report.
        root: of the repository.
    """
    pipeline = _with_included(table(document), root, _DEPTH)
    default = {**pipeline, **table(pipeline.get("default"))}
    always = {"CI": "true", "GITLAB_CI": "true", "CI_PROJECT_DIR": str(root)}
    outer = {**always, **values(pipeline.get("variables"))}
    for name, written in _jobs(pipeline):
        if name.startswith("."):
            continue
        job = _extended(written, pipeline, _DEPTH)
        before = _resolved(job.get("before_script", default.get("before_script")), pipeline, _DEPTH)
        after = _resolved(job.get("after_script", default.get("after_script")), pipeline, _DEPTH)
        script = _resolved(job.get("script"), pipeline, _DEPTH)
        missing = [text(parent) for parent in items(job.get("extends")) if text(parent) not in pipeline]
        if script is None and missing:
            yield Unread(name, f"it extends {listing(missing)}, which the file does not hold", file)
        for share in _shares(job.get("parallel")):
            variables = resolved({**outer, **values(job.get("variables")), **share})
            source = title(f"{file}: {name}", share)
            for part in ("\n".join((lines(before), lines(script))), lines(after)):
                yield Script(part, root, MappingProxyType(dict(variables)), source)


def _with_included(pipeline: Table, root: Path, depth: int) -> Table:
    """Return a pipeline with its local includes."""
    whole: Table = {}
    for entry in items(pipeline.get("include")) if depth else []:
        path = text(table(entry).get("local") if isinstance(entry, dict) else entry)
        file = root / path.lstrip("/")
        if path and file.is_file():
            whole = _merged(whole, _with_included(table(load(file)), root, depth - 1))
    return _merged(whole, pipeline)


def _jobs(pipeline: Table) -> Iterator[tuple[str, Table]]:
    return ((name, table(job)) for name, job in pipeline.items() if name not in _GLOBAL and isinstance(job, dict))


def _extended(job: Table, pipeline: Table, depth: int) -> Table:
    """Return a job merged with the templates that it extends."""
    whole: Table = {}
    if depth:
        for parent in items(job.get("extends")):
            whole = _merged(whole, _extended(table(pipeline.get(text(parent))), pipeline, depth - 1))
    return _merged(whole, job)


def _merged(below: Table, above: Table) -> Table:
    """Merge one table over another: tables are merged key by key, and everything else is replaced."""
    merged = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            merged[name] = _merged(table(below[name]), table(above[name]))
    return merged


def _resolved(script: object, pipeline: Table, depth: int) -> object:
    """Replace references by what they refer to."""
    if isinstance(script, Reference):
        found: object = pipeline
        for name in script:
            found = table(found).get(name)
        return _resolved(found, pipeline, depth - 1) if depth else None
    return [_resolved(one, pipeline, depth) for one in script] if isinstance(script, list) else script


def _shares(parallel: object) -> Sequence[dict[str, str]]:
    """Return the variables of each of a job's parallel jobs."""
    matrix = table(parallel).get("matrix")
    if matrix is not None:
        found = itertools.chain.from_iterable(combinations(axes) for axes in tables(matrix))
        return [{name: text(value) for name, value in one.items()} for one in found] or [{}]
    if not isinstance(parallel, int) or isinstance(parallel, bool) or parallel <= 1:
        return [{}]
    total = str(parallel)
    return [{"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": total} for number in range(1, parallel + 1)]
