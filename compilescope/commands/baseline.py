"""What ``check`` does with a baseline: reads it first, compares findings with it, and writes it when asked."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from compilescope.analysis import rules
from compilescope.analysis.rules import entry_of
from compilescope.commands.output import check_writable
from compilescope.errors import CompilescopeError, UsageError
from compilescope.gate.baseline import (
    DEFAULT_NAME,
    Baseline,
    compare,
    nearest_version,
    of_programs,
    read,
    rewrite,
    torch_minor,
    update,
)
from compilescope.gate.findings import finding
from compilescope.record import Judgement
from compilescope.wording import count, listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compilescope.config import Config
    from compilescope.gate.baseline import Comparison
    from compilescope.record import Finding

_SHOWN = 5
"""Most fixed entries that are listed; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line says about the baseline; None for an option that was not given."""

    baseline: Path | None
    update_baseline: bool
    update_new_only: bool
    strict: bool | None


@dataclass(frozen=True, slots=True)
class Settled:
    """Findings that were compared with the baseline.

    Attributes:
        findings: those that fail the run.
        judgement: the rest of the comparison.
        remarks: sentences for stderr.
    """

    findings: tuple[Finding, ...]
    judgement: Judgement
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Keeper:
    """A baseline and what to do with it.

    Attributes:
        path: its file; None without a baseline.
        baseline: as it was before the run.
        writes: whether the user asked to write it.
        new_only: whether writing keeps fixed entries.
        strict: whether a fixed entry is a finding.
        arguments: of ``check``, as they were typed.
    """

    path: Path | None = None
    baseline: Baseline = field(default_factory=Baseline)
    writes: bool = False
    new_only: bool = False
    strict: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command that accepts the findings."""
        file = () if self.path is not None else ("--baseline", DEFAULT_NAME)
        return shlex.join(("compilescope", "check", *file, "--update-baseline", *self.arguments))

    def settle(self, findings: Sequence[Finding], torch: str) -> Settled:
        """Compare ``findings``, made under a version of torch, with the baseline; write it if asked to."""
        if self.path is None:
            return Settled(tuple(findings), Judgement())
        minor = torch_minor(torch)
        blind = [finding for finding in findings if entry_of(finding) is None]
        if self.writes and not blind:
            try:
                renewed = rewrite(self.path, lambda now: self._renewed(now, findings, minor))
            except CompilescopeError as error:  # the report must be delivered all the same
                compared = compare(findings, of_programs(self.baseline.accepted(minor)))
                return Settled(compared.new, self._judgement(compared, error=str(error)))
            accepted = of_programs(renewed.accepted(minor))
            remark = f"{self.path} now accepts {count(len(accepted), 'finding')} under torch {minor}."
            return self._settled(compare(findings, accepted), (remark,))
        remarks: list[str] = []
        if self.writes:
            codes = listing(dict.fromkeys(finding.rule for finding in blind))
            remarks.append(f"{self.path} was not written: {codes} cannot be accepted, fix that first.")
        compared = compare(findings, of_programs(self.baseline.accepted(minor)))
        if minor not in self.baseline.torch:
            return self._of_another_torch(compared, minor, tuple(remarks))
        if compared.accepted:
            remarks.append(f"{count(len(compared.accepted), 'finding')} accepted by {self.path}.")
        if blind:
            # A run that was not recorded completely may have missed what the baseline accepts.
            return Settled(compared.new, self._judgement(compared), tuple(remarks))
        return self._settled(compared, tuple(remarks))

    def _judgement(self, compared: Comparison, *, error: str | None = None) -> Judgement:
        return Judgement(baseline=str(self.path), accepted=compared.accepted, error=error)

    def _of_another_torch(self, compared: Comparison, minor: str, remarks: tuple[str, ...]) -> Settled:
        """Compare with the nearest other torch version: which findings does the baseline accept there?"""
        others = listing(self.baseline.torch) or "no version"
        remark = f"{self.path} has entries only for torch {others}; this is torch {minor}, so nothing is accepted."
        earlier = nearest_version(self.baseline, minor)
        judgement = self._judgement(compared)
        if earlier is not None:
            unchanged = compare(compared.new, of_programs(self.baseline.accepted(earlier))).accepted
            judgement = structs.replace(judgement, earlier_torch=earlier, unchanged=unchanged)
            if compared.new:
                same = f"{len(unchanged)} of {count(len(compared.new), 'finding')}"
                remark += f" Under torch {earlier} it accepts {same}."
        return Settled(compared.new, judgement, (*remarks, remark))

    def _renewed(self, now: Baseline, findings: Sequence[Finding], minor: str) -> Baseline:
        return update(now, findings, minor, new_only=self.new_only, before=self.baseline)

    def _settled(self, compared: Comparison, remarks: tuple[str, ...]) -> Settled:
        if not compared.fixed:
            return Settled(compared.new, self._judgement(compared), remarks)
        if self.strict:
            stale = (
                finding(rules.STALE_BASELINE, f"Found less often than the baseline accepts: {entry}")
                for entry in compared.fixed
            )
            return Settled((*compared.new, *stale), self._judgement(compared), remarks)
        lines = [f"fixed: {entry}" for entry in compared.fixed[:_SHOWN]]
        if len(compared.fixed) > _SHOWN:
            lines.append(f"... and {count(len(compared.fixed) - _SHOWN, 'other entry', 'other entries')} fixed.")
        judgement = structs.replace(self._judgement(compared), fixed=tuple(map(str, compared.fixed)))
        return Settled(compared.new, judgement, (*remarks, *lines, f"To drop fixed entries: {self.command}"))


def open_baseline(wish: Wish, config: Config, arguments: tuple[str, ...]) -> Keeper:
    """Read the baseline before anything runs.

    Raises:
        UsageError: it is missing or not a baseline, it must be written and cannot be, or the options contradict each
            other.
    """
    writes = wish.update_baseline or wish.update_new_only
    if wish.update_baseline and wish.update_new_only:
        msg = "--update-baseline and --update-new-only exclude each other."
        raise UsageError(msg)
    path = wish.baseline or (Path(config.baseline) if config.baseline else None)
    if path is None:
        for option, given in (
            ("--update-baseline", wish.update_baseline),
            ("--update-new-only", wish.update_new_only),
            ("--strict", wish.strict),
        ):
            if given:
                msg = f"{option} needs --baseline FILE, or baseline in [tool.compilescope]."
                raise UsageError(msg)
        return Keeper(arguments=arguments)
    keeper = Keeper(
        path=path,
        writes=writes,
        new_only=wish.update_new_only,
        strict=config.strict if wish.strict is None else wish.strict,
        arguments=arguments,
    )
    if writes:
        check_writable(path)
        if path.exists() and not path.is_file():
            msg = f"The baseline {path} is not a file that can be updated."
            raise UsageError(msg)
    if not path.exists():
        if not writes:
            msg = f"The baseline {path} does not exist. To create it: {keeper.command}"
            raise UsageError(msg)
        return keeper
    return replace(keeper, baseline=read(path))
