"""``--compilescope-baseline``: the findings that the project accepts in its tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from compilescope.analysis.rules import entry_of
from compilescope.errors import UsageError
from compilescope.gate import baseline as file
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from compilescope.plugin.rulings import Ruling

Found = dict[str, dict[str, int]]
"""By torch's minor version: entries of a baseline, each with the most that one test had."""


@dataclass(slots=True)
class Ledger:
    """A baseline, and the findings of this session's tests.

    Each claim of each test is compared with the baseline separately, and its entries carry the test's name: accepting a
    finding in one test excuses no other test, and nothing that ``compilescope check`` reports.

    Attributes:
        path: the file.
        baseline: what it held when the session began.
        updating: whether to accept all acceptable findings.
        found: what to accept.
        met: all acceptable findings of the tests.
    """

    path: Path
    baseline: file.Baseline
    updating: bool
    found: Found = field(default_factory=dict)
    met: Found = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, *, updating: bool) -> Ledger:
        """Read the file, which need not exist for an update.

        Raises:
            UsageError: it is missing, cannot be read, or is not a baseline.
        """
        if path.exists():
            return cls(path, file.read(path), updating)
        if not updating:
            msg = f"The baseline {path} does not exist; --compilescope-update-baseline creates it."
            raise UsageError(msg)
        return cls(path, file.Baseline(), updating)

    def hold(self, test: str, rulings: Iterable[Ruling], torch: str) -> tuple[Ruling, ...]:
        """Return the rulings on a test without the findings that are accepted for it under this version of torch."""
        minor = file.torch_minor(torch)
        self.met.setdefault(minor, {})
        named = (replace(ruling, findings=tuple(file.of_test(f, test) for f in ruling.findings)) for ruling in rulings)
        return tuple(self._hold(ruling, minor) for ruling in named)

    def _hold(self, ruling: Ruling, minor: str) -> Ruling:
        entries = file.update(file.Baseline(), ruling.findings, minor).accepted(minor)
        _note(self.met, {minor: entries})
        if ruling.claim.broken is not None:  # the mark itself accepts
            return ruling
        accepted = self.baseline.accepted(minor)
        # A test that was not recorded completely may have missed findings: none of them is newly accepted.
        if self.updating and is_seen_whole(ruling):
            accepted = entries
            _note(self.found, {minor: entries})
        return replace(ruling, findings=file.compare(ruling.findings, accepted).new)

    def note(self, found: Found, met: Found) -> None:
        """Add the findings of a worker."""
        _note(self.found, found)
        _note(self.met, met)

    def stale(self) -> tuple[file.Fixed, ...]:
        """Return what is accepted more often than any test had it; meaningful only if all tests ran."""
        return tuple(
            file.Fixed(entry, amount, met.get(entry, 0))
            for minor, met in self.met.items()
            for entry, amount in self.baseline.accepted(minor).items()
            if file.is_of_test(entry) and met.get(entry, 0) < amount
        )

    def write(self) -> str | None:
        """Write the file if updating, and return a sentence about it.

        Entries that no test had stay, as only some of the tests may have run, and so do those that another session
        accepted meanwhile.

        Raises:
            UsageError: the file is not a baseline any more.
            RecordingError: it cannot be written.
        """
        if not self.updating:
            return None
        added: list[str] = []
        file.rewrite(self.path, lambda now: self._added_to(now, added))
        return f"{self.path}: {count(len(added), 'entry', 'entries')} newly accepted."

    def _added_to(self, baseline: file.Baseline, added: list[str]) -> file.Baseline:
        """Return ``baseline`` with the findings; append what it did not accept, or less often, to ``added``."""
        accepted = {minor: dict(entries) for minor, entries in baseline.torch.items()}
        for minor, entries in self.found.items():
            known = accepted.setdefault(minor, {})
            more = {entry: amount for entry, amount in entries.items() if amount > known.get(entry, 0)}
            added += more
            known |= more
        return file.Baseline(accepted)


def is_seen_whole(ruling: Ruling) -> bool:
    """Whether the test was recorded completely: each of its findings may be accepted."""
    return all(entry_of(finding) is not None for finding in ruling.findings)


def _note(known: Found, more: Mapping[str, Mapping[str, int]]) -> None:
    for minor, entries in more.items():
        kept = known.setdefault(minor, {})
        for entry, amount in entries.items():
            kept[entry] = max(amount, kept.get(entry, 0))
