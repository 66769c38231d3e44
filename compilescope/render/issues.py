"""What the CI formats share: findings with a place, a name and a fingerprint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.analysis.rules import RULES, entry_of
from compilescope.analysis.summary import alarms
from compilescope.render.words import plain

if TYPE_CHECKING:
    from compilescope.record import Finding, Recording

NOWHERE: Final = "pyproject.toml"
"""The place of a finding without a file: code-scanning services refuse findings without a place."""


@dataclass(frozen=True, slots=True)
class Issue:
    """A finding, ready to be shown.

    Attributes:
        code: of the rule.
        name: of the rule; its code if the rule is not ours.
        text: the message on one printable line.
        file: where it is; None if it has no file.
        line: from 1; None if it has no line.
        subject: id of the code object that it is about, or None.
        fingerprint: the same for the same finding in another run, and no other finding's of this run.
        blind: whether its rule reports missing data.
    """

    code: str
    name: str
    text: str
    file: str | None
    line: int | None
    subject: str | None
    fingerprint: str
    blind: bool


def issues(recording: Recording) -> tuple[Issue, ...]:
    """Return the findings of ``recording`` in order."""
    seen: dict[str, int] = {}
    found: list[Issue] = []
    for finding in recording.findings:
        identity = _identity(finding)
        times = seen[identity] = seen.get(identity, 0) + 1
        found.append(_issue(finding, f"{identity}\n{times}"))
    return tuple(found)


def _issue(finding: Finding, identity: str) -> Issue:
    rule = RULES.get(finding.rule)
    return Issue(
        code=plain(finding.rule),
        name=plain(finding.rule) if rule is None else rule.name,
        text=plain(finding.message),
        file=plain(finding.file) if finding.file else None,
        line=finding.line if finding.file and finding.line is not None and finding.line > 0 else None,
        subject=None if finding.code is None else plain(finding.code),
        fingerprint=hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest(),
        blind=rule is not None and not rule.acceptable,
    )


def _identity(finding: Finding) -> str:
    """Return what stays the same from run to run: the finding's key in a baseline, else its message."""
    return entry_of(finding) or "\n".join((finding.rule, finding.code or "", finding.message))


def notes(recording: Recording) -> tuple[str, ...]:
    """Return the alarms of a recording without findings; findings say them better."""
    return () if recording.findings else tuple(plain(alarm.text) for alarm in alarms(recording))
