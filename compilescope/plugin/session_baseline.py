"""``--compilescope-baseline``: what the tests may be found with, since the project has accepted it."""

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
"""By torch's minor version: entries of a baseline, each with how often one test was found with it at most."""


@dataclass(slots=True)
class Ledger:
    """A baseline, and what the tests of this session were found with.

    Each claim of each test is compared with the baseline for itself, and its entries carry the test's name: what is
    accepted of one test excuses no other, and nothing that ``compilescope check`` finds.

    Attributes:
        path: the file.
        baseline: what it held when the session began.
        updating: whether whatever may be accepted is to be accepted.
        found: what is to be accepted.
        met: whatever may be accepted that tests were found with.
    """

    path: Path
    baseline: file.Baseline
    updating: bool
    found: Found = field(default_factory=dict)
    met: Found = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, *, updating: bool) -> Ledger:
        """Read the file, which need not exist if it is to be updated.

        Raises:
            UsageError: it is missing, cannot be read, or is no baseline.
        """
        if path.exists():
            return cls(path, file.read(path), updating)
        if not updating:
            msg = f"The baseline {path} does not exist; --compilescope-update-baseline begins it."
            raise UsageError(msg)
        return cls(path, file.Baseline(), updating)

    def hold(self, test: str, rulings: Iterable[Ruling], torch: str) -> tuple[Ruling, ...]:
        """Return the rulings on a test without the findings that are accepted of it under this version of torch."""
        minor = file.torch_minor(torch)
        self.met.setdefault(minor, {})
        named = (replace(one, findings=tuple(file.of_test(f, test) for f in one.findings)) for one in rulings)
        return tuple(self._hold(ruling, minor) for ruling in named)

    def _hold(self, ruling: Ruling, minor: str) -> Ruling:
        entries = file.update(file.Baseline(), ruling.findings, minor).accepted(minor)
        _note(self.met, {minor: entries})
        if ruling.claim.broken is not None:  # the mark itself accepts
            return ruling
        accepted = self.baseline.accepted(minor)
        # A test that was not seen whole may have missed the rest: nothing of it is accepted anew.
        if self.updating and is_seen_whole(ruling):
            accepted = entries
            _note(self.found, {minor: entries})
        return replace(ruling, findings=file.compare(ruling.findings, accepted).new)

    def note(self, found: Found, met: Found) -> None:
        """Take over what a worker has found and met."""
        _note(self.found, found)
        _note(self.met, met)

    def stale(self) -> tuple[file.Fixed, ...]:
        """Return what is accepted more often than any test was found with it; it tells only where all tests ran."""
        return tuple(
            file.Fixed(entry, amount, met.get(entry, 0))
            for minor, met in self.met.items()
            for entry, amount in self.baseline.accepted(minor).items()
            if file.is_of_test(entry) and met.get(entry, 0) < amount
        )

    def write(self) -> str | None:
        """Write the file if it is to be updated, and return a sentence on it.

        Entries that no test was found with stay, as only a part of the tests may have run, and so do those that
        another session has accepted meanwhile.

        Raises:
            UsageError: the file has become something else than a baseline.
            RecordingError: it cannot be written.
        """
        if not self.updating:
            return None
        anew: list[str] = []
        file.rewrite(self.path, lambda now: self._added_to(now, anew))
        return f"{self.path}: {count(len(anew), 'entry', 'entries')} accepted anew."

    def _added_to(self, baseline: file.Baseline, anew: list[str]) -> file.Baseline:
        """Return ``baseline`` with what was found; ``anew`` takes the entries that it accepted less often, or not."""
        accepted = {minor: dict(entries) for minor, entries in baseline.torch.items()}
        for minor, entries in self.found.items():
            known = accepted.setdefault(minor, {})
            more = {entry: amount for entry, amount in entries.items() if amount > known.get(entry, 0)}
            anew += more
            known |= more
        return file.Baseline(accepted)


def is_seen_whole(ruling: Ruling) -> bool:
    """Whether nothing kept from seeing all that a test compiled: each finding is one that may be accepted."""
    return all(entry_of(one) is not None for one in ruling.findings)


def _note(known: Found, more: Mapping[str, Mapping[str, int]]) -> None:
    for minor, entries in more.items():
        kept = known.setdefault(minor, {})
        for entry, amount in entries.items():
            kept[entry] = max(amount, kept.get(entry, 0))
