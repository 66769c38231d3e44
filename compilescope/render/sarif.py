"""SARIF 2.1.0, the interchange format of static analysis: GitHub code scanning and many viewers read it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from compilescope.analysis.rules import RULES
from compilescope.render.issues import NOWHERE, issues, notes
from compilescope.render.words import harmless_json, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compilescope.record import Recording
    from compilescope.render.issues import Issue
    from compilescope.render.options import Options

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT: Final = "%SRCROOT%"


@dataclass(frozen=True, slots=True)
class SarifRenderer:
    """Renders one SARIF run."""

    name: str = "sarif"
    extension: str = ".sarif"

    def render(self, recording: Recording, options: Options) -> str:  # noqa: ARG002 (SARIF has one form)
        """Return the log."""
        found = issues(recording)
        codes = list(dict.fromkeys(issue.code for issue in found))
        run = {
            "tool": {
                "driver": {
                    "name": "compilescope",
                    "version": plain(recording.meta.compilescope),
                    "rules": [_rule(code) for code in codes],
                }
            },
            "invocations": [_invocation(recording)],
            "columnKind": "unicodeCodePoints",
            "results": [_result(issue, codes) for issue in found],
        }
        log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
        return harmless_json(json.dumps(log, indent=1, ensure_ascii=False)) + "\n"


def _rule(code: str) -> dict[str, Any]:
    rule = RULES.get(code)
    if rule is None:
        return {"id": code}
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": rule.name.replace("-", " ")},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": "error"},
    }


def _invocation(recording: Recording) -> dict[str, Any]:
    """Say whether the workload ran to its end; doubts that are not findings are notifications."""
    run = recording.meta.run
    ended = run is None or run.status == "ok" or (run.status == "exited" and run.exit_code == 0)
    doubts = [{"level": "warning", "message": {"text": note}} for note in notes(recording)]
    return {"executionSuccessful": ended, "toolExecutionNotifications": doubts}


def _result(issue: Issue, codes: Sequence[str]) -> dict[str, Any]:
    return {
        "ruleId": issue.code,
        "ruleIndex": codes.index(issue.code),
        "level": "error",
        "message": {"text": issue.text},
        "locations": [_location(issue)],
        "partialFingerprints": {"compilescope/v1": issue.fingerprint},
    }


def _location(issue: Issue) -> dict[str, Any]:
    physical: dict[str, Any] = {
        "artifactLocation": {"uri": quote(issue.file or NOWHERE), "uriBaseId": _ROOT},
        "region": {"startLine": issue.line or 1},
    }
    if issue.subject is None:
        return {"physicalLocation": physical}
    return {"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": issue.subject}]}
