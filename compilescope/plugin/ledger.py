"""``--compilescope-baseline``: what the tests may be found with, since the project has accepted it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from compilescope.errors import UsageError
from compilescope.gate import baseline as file
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from compilescope.plugin.judging import Ruling

Found = dict[str, dict[str, int]]
"""By torch's minor version: entries of a baseline, each with how often one test was found with it at most."""


@dataclass(slots=True)
class Ledger:
    """A baseline, and what the tests of this session were found with.

    Each claim of each test is compared with the baseline for itself. So its counts hold for one test,
    whichever worker runs it, and the entries are those that ``compilescope check`` writes for the same model.

    Attributes:
        path: the file.
        baseline: what it held when the session began.
        updating: whether whatever may be accepted is to be accepted.
        found: what is to be accepted.
    """

    path: Path
    baseline: file.Baseline
    updating: bool
    found: Found = field(default_factory=dict)

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

    def hold(self, rulings: Iterable[Ruling], torch: str) -> tuple[Ruling, ...]:
        """Return ``rulings`` without the findings that are accepted under this version of torch."""
        minor = file.torch_minor(torch)
        return tuple(self._hold(ruling, minor) for ruling in rulings)

    def _hold(self, ruling: Ruling, minor: str) -> Ruling:
        if ruling.claim.broken is not None:  # the mark itself accepts
            return ruling
        accepted = self.baseline.accepted(minor)
        # A test that was not seen whole may have missed the rest: nothing of it is accepted anew.
        if self.updating and all(file.entry_of(one) is not None for one in ruling.findings):
            accepted = file.update(file.Baseline(), ruling.findings, minor).accepted(minor)
            self.note({minor: accepted})
        return replace(ruling, findings=file.compare(ruling.findings, accepted).new)

    def note(self, found: Mapping[str, Mapping[str, int]]) -> None:
        """Accept what was found, here or by a worker."""
        for minor, entries in found.items():
            known = self.found.setdefault(minor, {})
            for entry, amount in entries.items():
                known[entry] = max(amount, known.get(entry, 0))

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
