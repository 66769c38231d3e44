"""What ``check`` does with a baseline: reads it first, holds findings against it, and writes it when asked."""

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
"""Fixed entries that are listed before it is said how many more there are."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line says of the baseline; None where an option was not given."""

    baseline: Path | None
    update_baseline: bool
    update_new_only: bool
    strict: bool | None


@dataclass(frozen=True, slots=True)
class Settled:
    """Findings that were held against the baseline.

    Attributes:
        findings: what stands against the run.
        judgement: what else is to be known of them.
        remarks: sentences for stderr.
    """

    findings: tuple[Finding, ...]
    judgement: Judgement
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Keeper:
    """A baseline and what is to be done with it.

    Attributes:
        path: its file; None where there is none.
        baseline: as it was before the run.
        writes: whether the user asked to write it.
        new_only: whether writing keeps what was fixed.
        strict: whether what was fixed is a finding.
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
        """The command that would accept what was found."""
        file = () if self.path is not None else ("--baseline", DEFAULT_NAME)
        return shlex.join(("compilescope", "check", *file, "--update-baseline", *self.arguments))

    def settle(self, findings: Sequence[Finding], torch: str) -> Settled:
        """Hold ``findings``, made under a version of torch, against the baseline; write it if that was asked for."""
        if self.path is None:
            return Settled(tuple(findings), Judgement())
        minor = torch_minor(torch)
        blind = [one for one in findings if entry_of(one) is None]
        if self.writes and not blind:
            try:
                renewed = rewrite(self.path, lambda now: self._renewed(now, findings, minor))
            except CompilescopeError as error:  # what was recorded must be delivered all the same
                compared = compare(findings, of_programs(self.baseline.accepted(minor)))
                return Settled(compared.new, self._judgement(compared, error=str(error)))
            accepted = of_programs(renewed.accepted(minor))
            told = f"{self.path} now accepts {count(len(accepted), 'finding')} under torch {minor}."
            return self._settled(compare(findings, accepted), (told,))
        remarks: list[str] = []
        if self.writes:
            codes = listing(dict.fromkeys(one.rule for one in blind))
            remarks.append(f"{self.path} was not written: {codes} cannot be accepted, fix that first.")
        compared = compare(findings, of_programs(self.baseline.accepted(minor)))
        if minor not in self.baseline.torch:
            return self._of_another_torch(compared, minor, tuple(remarks))
        if compared.accepted:
            remarks.append(f"{count(len(compared.accepted), 'finding')} accepted by {self.path}.")
        if blind:
            # A run that could not be seen whole may have missed what the baseline accepts.
            return Settled(compared.new, self._judgement(compared), tuple(remarks))
        return self._settled(compared, tuple(remarks))

    def _judgement(self, compared: Comparison, *, error: str | None = None) -> Judgement:
        return Judgement(baseline=str(self.path), accepted=compared.accepted, error=error)

    def _of_another_torch(self, compared: Comparison, minor: str, remarks: tuple[str, ...]) -> Settled:
        """Tell the findings that the baseline accepts under another version of torch from those that came with it."""
        others = listing(self.baseline.torch) or "no version"
        told = f"{self.path} speaks of torch {others} and this is torch {minor}, so it accepts nothing here."
        earlier = nearest_version(self.baseline, minor)
        judgement = self._judgement(compared)
        if earlier is not None:
            unchanged = compare(compared.new, of_programs(self.baseline.accepted(earlier))).accepted
            judgement = structs.replace(judgement, earlier_torch=earlier, unchanged=unchanged)
            if compared.new:
                same = f"{len(unchanged)} of {count(len(compared.new), 'finding')}"
                told += f" Under torch {earlier} it accepts {same}."
        return Settled(compared.new, judgement, (*remarks, told))

    def _renewed(self, now: Baseline, findings: Sequence[Finding], minor: str) -> Baseline:
        return update(now, findings, minor, new_only=self.new_only, before=self.baseline)

    def _settled(self, compared: Comparison, remarks: tuple[str, ...]) -> Settled:
        if not compared.fixed:
            return Settled(compared.new, self._judgement(compared), remarks)
        if self.strict:
            stale = (
                finding(rules.STALE_BASELINE, f"No longer found as often as accepted: {one}") for one in compared.fixed
            )
            return Settled((*compared.new, *stale), self._judgement(compared), remarks)
        lines = [f"fixed: {one}" for one in compared.fixed[:_SHOWN]]
        if len(compared.fixed) > _SHOWN:
            lines.append(f"... and {count(len(compared.fixed) - _SHOWN, 'other entry', 'other entries')} fixed.")
        judgement = structs.replace(self._judgement(compared), fixed=tuple(map(str, compared.fixed)))
        return Settled(compared.new, judgement, (*remarks, *lines, f"To drop what was fixed: {self.command}"))


def open_baseline(wish: Wish, config: Config, arguments: tuple[str, ...]) -> Keeper:
    """Read the baseline before anything is run.

    Raises:
        UsageError: it is missing or no baseline, cannot be written where that is asked for, or the options
            contradict each other.
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
            msg = f"The baseline {path} is not a file that could be updated."
            raise UsageError(msg)
    if not path.exists():
        if not writes:
            msg = f"The baseline {path} does not exist. To begin it: {keeper.command}"
            raise UsageError(msg)
        return keeper
    return replace(keeper, baseline=read(path))
