"""Makes findings: where they point, and their key in a baseline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from compilescope.record import Finding

if TYPE_CHECKING:
    from compilescope.analysis.rules import Rule
    from compilescope.record import CodeObject, Location

_RESUMED: Final = re.compile(r"torch_dynamo_resume_in_(.+?)_at_\d+")
"""Dynamo's name of a resume function; it contains the line after which it resumes."""


def finding(  # noqa: PLR0913 (what a finding is made of; all but two by keyword)
    rule: Rule,
    message: str,
    *,
    key: str = "",
    code: CodeObject | None = None,
    where: Location | None = None,
    amount: int = 1,
) -> Finding:
    """Return a finding of ``rule``.

    Args:
        rule: the rule that reports it.
        message: one sentence or phrase.
        key: its key in a baseline; needed only if the rule's findings may be accepted.
        code: the code object that it is about.
        where: the line to point to; the code object's first line by default.
        amount: how many equal findings it stands for.
    """
    file, line = (where.file, where.line) if where is not None else (None, None)
    if file is None and code is not None:
        file, line = code.file, code.line
    return Finding(
        rule=rule.code,
        code=None if code is None else code.id,
        message=" ".join(message.split()),
        file=file,
        line=line,
        key=_RESUMED.sub(r"\1", " ".join(key.split())) if rule.acceptable else None,
        amount=amount,
    )
