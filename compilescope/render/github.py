"""Workflow commands for GitHub Actions: printed within a job, they become annotations on the changed files.

GitHub shows ten annotations of each level for a step; the log has all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compilescope.analysis.summary import verdict
from compilescope.render.issues import issues, notes
from compilescope.render.words import plain

if TYPE_CHECKING:
    from compilescope.record import Recording
    from compilescope.render.issues import Issue
    from compilescope.render.options import Options


@dataclass(frozen=True, slots=True)
class GithubRenderer:
    """Renders one line per annotation: findings are errors, doubts are warnings, the counts a notice."""

    name: str = "github"
    extension: str = ".github.txt"

    def render(self, recording: Recording, options: Options) -> str:  # noqa: ARG002 (annotations have one form)
        """Return the commands."""
        lines = [_error(issue) for issue in issues(recording)]
        lines += [f"::warning title=compilescope::{_data(note)}" for note in notes(recording)]
        lines.append(f"::notice title=compilescope::{_data(plain(verdict(recording)))}")
        return "\n".join(lines) + "\n"


def _error(issue: Issue) -> str:
    title = issue.code if issue.name == issue.code else f"{issue.code} {issue.name}"
    properties = {"file": issue.file, "line": None if issue.line is None else str(issue.line), "title": title}
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value is not None)
    return f"::error {written}::{_data(issue.text)}"


def _data(text: str) -> str:
    """Escape what follows the second pair of colons: the runner decodes only these three."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape the value of a property, which a comma or a colon would end."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
