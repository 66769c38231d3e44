"""GitHub Actions: workflows, and the actions and workflows of the repository that they use."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.lanes.ci.document import load, table, tables, text, values
from compilescope.lanes.ci.matrix import combinations, including, title, without
from compilescope.lanes.reading import Script

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from compilescope.lanes.ci.document import Table
    from compilescope.lanes.ci.matrix import Combination

_EXPRESSION: Final = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
_ALONE: Final = re.compile(r"\$\{\{.*\}\}", re.DOTALL)
_ALWAYS: Final = MappingProxyType({"CI": "true", "GITHUB_ACTIONS": "true"})
_LOCAL: Final = "./"
_OTHER_SHELLS: Final = frozenset({"pwsh", "powershell", "cmd", "python"})
_ACTIONS: Final = ("action.yml", "action.yaml")


@dataclass(frozen=True, slots=True)
class _Context:
    """The values that expressions in a job may use.

    Attributes:
        name: of the job, for the report.
        root: of the repository.
        known: values by their names in expressions: ``matrix.python``, ``env.MARK``.
        environment: variables of the shell; None if the value is not known.
        shell: the default shell of steps.
        folder: their working folder.
    """

    name: str
    root: Path
    known: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    shell: str = ""
    folder: str = ""

    def knowing(self, area: str, found: Mapping[str, object]) -> _Context:
        """Return the context with more values for a namespace of expressions."""
        named = dict(_flat(area, found))
        return replace(self, known=MappingProxyType({**self.known, **named}))

    def with_environment(self, value: object) -> _Context:
        """Return the context with the variables of an ``env`` table."""
        found = {name: self.fill(each) for name, each in values(value).items()}
        known = {name: each for name, each in found.items() if not _ALONE.search(each)}
        environment = {**self.environment, **{name: known.get(name) for name in found}}
        return replace(self.knowing("env", known), environment=MappingProxyType(environment))

    def with_defaults(self, defaults: object) -> _Context:
        """Return the context with the shell and folder of ``defaults``."""
        run = table(table(defaults).get("run"))
        shell, folder = text(run.get("shell")), text(run.get("working-directory"))
        return replace(self, shell=shell or self.shell, folder=self.fill(folder) or self.folder)

    def fill(self, written: str) -> str:
        """Replace expressions by their values; an expression without a value stays as written."""
        return _EXPRESSION.sub(lambda found: text(self.known.get(found[1], found[0])), written)


def _flat(area: str, found: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the names of values in expressions, also of values in tables."""
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _flat(f"{area}.{name}", table(value))
        elif not isinstance(value, list):
            yield f"{area}.{name}", value


def is_workflow(document: object) -> bool:
    """Whether a document is a workflow or an action of GitHub."""
    found = table(document)
    return isinstance(found.get("jobs"), dict) or "steps" in table(found.get("runs"))


def workflow_scripts(document: object, file: str, root: Path) -> Iterator[Script]:
    """Yield the scripts of a workflow.

    Args:
        document: the parsed file.
        file: its name in the report.
        root: of the repository.
    """
    context = _Context(file, root, environment=_ALWAYS).knowing("github", {"workspace": str(root)})
    context = replace(context, environment=MappingProxyType({**_ALWAYS, "GITHUB_WORKSPACE": str(root)}))
    yield from _document(table(document), context, frozenset())


def _document(document: Table, context: _Context, users: frozenset[Path]) -> Iterator[Script]:
    inside = context.with_environment(document.get("env")).with_defaults(document.get("defaults"))
    yield from _steps(table(document.get("runs")), inside, users)
    for name, value in table(document.get("jobs")).items():
        job = table(value)
        for combination in _matrix(table(table(job.get("strategy")).get("matrix"))):
            here = replace(inside, name=title(f"{context.name}: {name}", combination)).knowing("matrix", combination)
            here = here.with_environment(job.get("env")).with_defaults(job.get("defaults"))
            yield from _used(job, here, users)
            yield from _steps(job, here, users)


def _matrix(matrix: Table) -> list[Combination]:
    axes = {name: value for name, value in matrix.items() if name not in {"include", "exclude"}}
    # An axis that an earlier job computes (`${{ fromJSON(...) }}`) is not known, and its values stay as written.
    axes = {name: value for name, value in axes.items() if not (isinstance(value, str) and _ALONE.fullmatch(value))}
    found = without(list(combinations(axes)), list(tables(matrix.get("exclude")))) if axes else []
    return including(found, axes, list(tables(matrix.get("include")))) or [{}]


def _steps(job: Table, context: _Context, users: frozenset[Path]) -> Iterator[Script]:
    for step in tables(job.get("steps")):
        here = context.with_environment(step.get("env"))
        shell = (text(step.get("shell")) or here.shell).partition(" ")[0]
        run = step.get("run")
        if isinstance(run, str) and shell not in _OTHER_SHELLS:
            folder = here.fill(text(step.get("working-directory"))) or here.folder
            # Keep an expression without a value unquoted: in quotes it would be a name.
            go = f"cd {folder if _ALONE.search(folder) else shlex.quote(folder)}\n" if folder else ""
            yield Script(go + here.fill(run), here.root, here.environment, here.name)
        yield from _used(step, here, users)


def _used(user: Table, context: _Context, users: frozenset[Path]) -> Iterator[Script]:
    """Yield the scripts of the local workflow or action that a job or step uses."""
    path = text(user.get("uses"))
    if not path.startswith(_LOCAL):
        return
    place = context.root / path
    file = next((file for file in (place, *(place / name for name in _ACTIONS)) if file.is_file()), None)
    if file is None or file in users:
        return
    document = table(load(file))
    inputs = {**_defaults(document), **table(user.get("with"))}
    filled = {name: context.fill(text(value)) for name, value in inputs.items()}
    known = {name: value for name, value in filled.items() if not _ALONE.search(value)}
    yield from _document(document, context.knowing("inputs", known), users | {file})


def _defaults(document: Table) -> dict[str, object]:
    """Return the inputs of a called action or workflow, with their defaults."""
    # YAML parses the key `on` as true.
    on = table(document.get("on") or document.get("true"))
    inputs = {**table(table(on.get("workflow_call")).get("inputs")), **table(document.get("inputs"))}
    return {name: table(one)["default"] for name, one in inputs.items() if "default" in table(one)}
