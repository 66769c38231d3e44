"""Reads the lanes of CI files, for any supported service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from compilescope.errors import UsageError
from compilescope.lanes.ci import buildkite, github, gitlab
from compilescope.lanes.ci.document import load
from compilescope.lanes.lane import Lane, Unread
from compilescope.lanes.reading import Script, distinct_unread, lanes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def read(files: Sequence[str], root: Path) -> tuple[list[Lane], list[Unread]]:
    """Return the lanes in the files, and those that could not be read.

    Args:
        files: of GitHub Actions, GitLab CI or Buildkite.
        root: of the repository, where commands begin.

    Raises:
        UsageError: a file cannot be read, is of an unknown kind, or never calls pytest.
    """
    lanes: list[Lane] = []
    unread: list[Unread] = []
    for file in dict.fromkeys(files):
        found = list(_read(file, root))
        if not found:
            msg = f"No command in {file} runs tests by pytest."
            raise UsageError(msg)
        lanes.extend(lane for lane in found if isinstance(lane, Lane))
        unread.extend(lane for lane in found if isinstance(lane, Unread))
    return lanes, distinct_unread(unread)


def _read(file: str, root: Path) -> Iterator[Lane | Unread]:
    for script in _scripts(load(Path(file)), file, root):
        if isinstance(script, Script):
            yield from lanes_of(script)
        else:
            yield script


def _scripts(document: object, file: str, root: Path) -> Iterator[Script | Unread]:
    if github.is_workflow(document):
        return github.workflow_scripts(document, file, root)
    if buildkite.is_pipeline(document):
        return buildkite.pipeline_scripts(document, file, root)
    if gitlab.is_pipeline(document):
        return gitlab.pipeline_scripts(document, file, root)
    msg = f"{file} is not a workflow of GitHub Actions, nor a pipeline of GitLab CI or Buildkite."
    raise UsageError(msg)
