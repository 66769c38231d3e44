"""GitLab's code-quality report: findings appear in the merge request's widget and on the changed lines."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compilescope.render.issues import NOWHERE, issues, notes
from compilescope.render.words import harmless_json

if TYPE_CHECKING:
    from compilescope.record import Recording
    from compilescope.render.issues import Issue
    from compilescope.render.options import Options


@dataclass(frozen=True, slots=True)
class GitlabRenderer:
    """Renders a JSON list of issues."""

    name: str = "gitlab"
    extension: str = ".gitlab.json"

    def render(self, recording: Recording, options: Options) -> str:  # noqa: ARG002 (the report has one form)
        """Return the list; it is empty if there are no findings and no doubts."""
        found = [_issue(issue) for issue in issues(recording)]
        found += [_note(note) for note in dict.fromkeys(notes(recording))]
        return harmless_json(json.dumps(found, indent=1, ensure_ascii=False)) + "\n"


def _issue(issue: Issue) -> dict[str, object]:
    return {
        "description": f"{issue.code}: {issue.text}",
        "check_name": issue.name,
        "fingerprint": issue.fingerprint,
        "severity": "critical" if issue.blind else "major",
        "location": {"path": issue.file or NOWHERE, "lines": {"begin": issue.line or 1}},
    }


def _note(text: str) -> dict[str, object]:
    return {
        "description": text,
        "check_name": "compilescope",
        "fingerprint": hashlib.sha256(text.encode()).hexdigest(),
        "severity": "info",
        "location": {"path": NOWHERE, "lines": {"begin": 1}},
    }
