"""Judges a run by a project's limits. Knows neither pytest nor torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compilescope.gate import blind_spots
from compilescope.gate.fallbacks import eager_findings
from compilescope.gate.limits import break_findings, compile_findings, size_findings
from compilescope.gate.selection import Scope

if TYPE_CHECKING:
    from compilescope.gate.budget import Budget
    from compilescope.record import Finding, Recording


def judge(recording: Recording, budget: Budget) -> tuple[Finding, ...]:
    """Return the findings of ``budget`` in ``recording``: first what was not recorded, then what exceeds a limit.

    No findings mean that the run was recorded completely and stayed within every limit.
    """
    scope = Scope(recording, budget.targets)
    return (
        *blind_spots.run_findings(recording),
        *blind_spots.number_findings(recording),
        *blind_spots.vacuous_findings(scope, budget),
        *blind_spots.blind_findings(scope, budget),
        *compile_findings(scope, budget),
        *eager_findings(scope, budget),
        *break_findings(scope, budget),
        *size_findings(scope, budget),
    )
