"""Compares what the lanes select with all tests."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.errors import UsageError
from compilescope.lanes.asking import Told, ask
from compilescope.lanes.lane import Lane, Unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_AT_ONCE: Final = min(4, os.cpu_count() or 1)
"""Most parallel runs of pytest: each may import torch, and memory runs out before cores do."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What one lane selects.

    Attributes:
        lane: the lane.
        selected: the tests that are left to run.
        skipped: those that it skips on this machine, each with the reason.
    """

    lane: Lane
    selected: frozenset[str]
    skipped: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        collected: every test with its marks, in pytest's order, whatever deselects it.
        lanes: what each lane selects.
        unread: the lanes whose selection is not known.
        ignored: test files that every lane ignores.
        skipping: test files that skip themselves on this machine, each with the reason.
    """

    collected: Mapping[str, tuple[str, ...]]
    lanes: Sequence[Selection]
    unread: Sequence[Unread]
    ignored: Sequence[str]
    skipping: Mapping[str, str]

    @property
    def unselected(self) -> tuple[str, ...]:
        """The tests that no lane selects."""
        selected = frozenset().union(*(selection.selected for selection in self.lanes))
        return tuple(test for test in self.collected if test not in selected)

    @property
    def skipped(self) -> Mapping[str, str]:
        """The selected tests that every selecting lane skips on this machine, each with the reason."""
        run = frozenset[str]().union(*(selection.selected - selection.skipped.keys() for selection in self.lanes))
        skipped = {test: why for selection in self.lanes for test, why in selection.skipped.items()}
        return {test: skipped[test] for test in self.collected if test in skipped and test not in run}

    @property
    def empty(self) -> tuple[Lane, ...]:
        """The lanes that select no tests: probably a misspelt mark."""
        return tuple(selection.lane for selection in self.lanes if not selection.selected)


def audit(lanes: Sequence[Lane], arguments: Sequence[str], folder: Path, unread: Sequence[Unread] = ()) -> Audit:
    """Let pytest collect all tests, and then those of each lane.

    Args:
        lanes: the lanes.
        arguments: pytest's arguments to collect all tests, such as their folder.
        folder: where it collects them.
        unread: lanes that could not be read.

    Raises:
        UsageError: pytest cannot collect all tests or a lane that the user typed, or collects nothing.
    """
    everything = ask(Lane("all tests", tuple(arguments), folder), folder)
    if not (everything.collected or everything.ignored or everything.skipping):
        msg = f"{' '.join(('pytest', *arguments))} collects no tests, so no lane can miss one."
        raise UsageError(msg)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda lane: _ask(lane, folder), lanes))
    answered = [answer for answer in answers if isinstance(answer, Told)]
    # Without arguments, "all tests" includes those that a lane collects outside pytest's usual folders.
    known = [everything] if arguments else [everything, *answered]
    seen = {test.partition("::")[0] for answer in (everything, *answered) for test in answer.collected}
    skipping = {file: why for answer in known for file, why in answer.skipping.items() if file not in seen}
    ignored = dict.fromkeys(file for answer in known for file in answer.ignored if file not in seen | skipping.keys())
    return Audit(
        collected={test: marks for answer in known for test, marks in answer.collected.items()},
        lanes=[
            Selection(lane, answer.selected, answer.skipped)
            for lane, answer in zip(lanes, answers, strict=True)
            if isinstance(answer, Told)
        ],
        unread=[*unread, *(answer for answer in answers if isinstance(answer, Unread))],
        ignored=tuple(ignored),
        skipping=skipping,
    )


def _ask(lane: Lane, folder: Path) -> Told | Unread:
    try:
        return ask(lane, folder)
    except UsageError as error:
        if lane.source:
            return Unread(lane.name, str(error), lane.source)
        msg = f"in the lane {lane.name}: {error}"
        raise UsageError(msg) from None
