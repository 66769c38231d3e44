"""The baseline: findings that a project has accepted, committed to its repository.

A JSON file, one finding a line, sorted, keyed by torch's minor version, without line numbers, absolute paths or times:
it changes only when the findings change. A finding made in a test carries the test's name.
Each finding has a count: one more of the same is new. The last line of each version is always the
same, so that every other line ends in a comma and two branches that add findings merge line by line
(``merge=union`` in ``.gitattributes`` does it).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from compilescope.analysis.rules import RULES, entry_of
from compilescope.errors import RecordingError, UsageError
from compilescope.files import locked, write_atomically
from compilescope.wording import guess, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from compilescope.record import Finding

FORMAT: Final = 1
"""Version of the file. History: 1, the first."""

DEFAULT_NAME: Final = "compilescope-baseline.json"
_END: Final = "~"
"""The key of the last line of each version; it sorts after every rule."""
_MINOR: Final = re.compile(r"(\d+\.\d+)")
_KEYS: Final = ("format", "torch")
_TEST: Final = "[test "
_OF_TEST: Final = "] "


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is accepted: for each minor version of torch, findings by rule and key, with their counts."""

    torch: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def accepted(self, minor: str) -> Mapping[str, int]:
        """Return what is accepted under a minor version of torch."""
        return self.torch.get(minor, {})


@dataclass(frozen=True, slots=True)
class Fixed:
    """A baseline entry that accepts more than was found."""

    entry: str
    accepted: int
    found: int

    def __str__(self) -> str:
        """Say it."""
        return f"{self.entry} (accepted {self.accepted}, found {self.found})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Findings compared with a baseline.

    Attributes:
        new: not accepted, or more of the same than is accepted.
        accepted: the others.
        fixed: entries that accept more than was found.
    """

    new: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    fixed: tuple[Fixed, ...]


def torch_minor(version: str) -> str:
    """Return ``2.13`` for ``2.13.0+cpu``; a version of another form as it is."""
    found = _MINOR.match(version)
    return found[1] if found else version


def nearest_version(baseline: Baseline, minor: str) -> str | None:
    """Return the version to compare findings under ``minor`` with: the newest older one, or else the oldest.

    None where the baseline holds ``minor`` itself, or no version.
    """
    if minor in baseline.torch or not baseline.torch:
        return None
    versions = sorted(baseline.torch, key=_number)
    older = [version for version in versions if _number(version) < _number(minor)]
    return older[-1] if older else versions[0]


def of_test(finding: Finding, test: str) -> Finding:
    """Return a finding with the name of its test, which its baseline entry then carries."""
    if finding.key is None or finding.key.startswith(_TEST):
        return finding
    return msgspec.structs.replace(finding, key=f"{_TEST}{' '.join(test.split())}{_OF_TEST}{finding.key}")


def is_of_test(entry: str) -> bool:
    """Whether an entry belongs to a test."""
    return entry.partition(" ")[2].startswith(_TEST) and _OF_TEST in entry


def of_programs(accepted: Mapping[str, int]) -> Mapping[str, int]:
    """Return the entries that do not belong to a test."""
    return {entry: count for entry, count in accepted.items() if not is_of_test(entry)}


def compare(findings: Iterable[Finding], accepted: Mapping[str, int]) -> Comparison:
    """Sort ``findings`` into new and accepted ones."""
    left = dict(accepted)
    found: Counter[str] = Counter()
    new: list[Finding] = []
    known: list[Finding] = []
    for finding in findings:
        entry = entry_of(finding)
        if entry is None:
            new.append(finding)
            continue
        found[entry] += finding.amount
        if finding.amount <= left.get(entry, 0):
            left[entry] -= finding.amount
            known.append(finding)
        else:
            new.append(finding)
    fixed = tuple(Fixed(entry, count, found[entry]) for entry, count in accepted.items() if found[entry] < count)
    return Comparison(tuple(new), tuple(known), fixed)


def update(
    baseline: Baseline,
    findings: Iterable[Finding],
    minor: str,
    *,
    new_only: bool = False,
    before: Baseline | None = None,
) -> Baseline:
    """Return a baseline that accepts ``findings`` under ``minor``; other versions are left as they are.

    Args:
        baseline: the old one.
        findings: all of a run; those that cannot be accepted are left out.
        minor: the run's minor version of torch.
        new_only: keep entries that were not found, or found less often.
        before: the baseline when the run began, if it differs. What others changed since then stays: this run knows
            nothing about it.
    """
    found: Counter[str] = Counter()
    for finding in findings:
        entry = entry_of(finding)
        if entry is not None:
            found[entry] += finding.amount
    known = {} if new_only else (before or baseline).accepted(minor)
    found |= Counter(
        {
            entry: count
            for entry, count in baseline.accepted(minor).items()
            if count != known.get(entry) or is_of_test(entry)
        }
    )
    return replace(baseline, torch={**baseline.torch, minor: dict(found)})


def read(path: Path) -> Baseline:
    """Read the baseline at ``path``.

    Raises:
        UsageError: the file does not exist, or does not have the form that :func:`write` gives it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors on Windows begin a file with a byte order mark
    except OSError as error:
        msg = f"The baseline {path} cannot be read: {error.strerror or error}."
        raise UsageError(msg) from None
    except UnicodeDecodeError:
        msg = f"The baseline {path} is not UTF-8 text."
        raise UsageError(msg) from None
    try:
        return _checked(json.loads(text, object_pairs_hook=_without_twins), path)
    except RecursionError:
        msg = f"The baseline {path} is not valid JSON: it is nested too deeply."
        raise UsageError(msg) from None
    except ValueError as error:
        msg = f"The baseline {path} is not valid JSON, or was cut short: {error}."
        raise UsageError(msg) from None


def _without_twins(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; refuse two lines for one finding, as a merge may leave them: either may be the right one.

    Raises:
        ValueError: a key appears twice with different values.
    """
    built: dict[str, Any] = {}
    for key, value in pairs:
        if key in built and built[key] != value:
            msg = f"{key!r} appears twice, as {built[key]!r} and {value!r}; keep one of the lines"
            raise ValueError(msg)
        built[key] = value
    return built


def _checked(data: object, path: Path) -> Baseline:
    if not isinstance(data, dict) or not isinstance(data.get("torch"), dict) or "format" not in data:
        msg = f"{path} is not a compilescope baseline: it has no keys {listing(_KEYS)}."
        raise UsageError(msg)
    if data["format"] != FORMAT:
        msg = f"The baseline {path} has format {data['format']!r}; this version reads format {FORMAT}."
        raise UsageError(msg)
    for key in data:
        if key not in _KEYS:
            msg = f"Unknown key {key!r} in the baseline {path}: the keys are {listing(_KEYS)}.{guess(key, _KEYS)}"
            raise UsageError(msg)
    return Baseline({minor: _entries(minor, entries, path) for minor, entries in data["torch"].items()})


def _entries(minor: str, entries: object, path: Path) -> dict[str, int]:
    where = f"in the baseline {path}, torch {minor}"
    if not _MINOR.fullmatch(minor) or not isinstance(entries, dict):
        msg = f"{minor!r} in the baseline {path} must be a version such as '2.13', with its findings below it."
        raise UsageError(msg)
    for entry, count in entries.items():
        if entry == _END:
            continue
        code, _, key = entry.partition(" ")
        if code not in RULES or not key:
            msg = f"Unknown entry {entry!r} {where}: an entry is a rule and what it found.{guess(code, RULES)}"
            raise UsageError(msg)
        if not RULES[code].acceptable:
            msg = f"The entry {entry!r} {where} accepts a finding that cannot be accepted: {RULES[code].name}."
            raise UsageError(msg)
        if not _is_text(entry):
            msg = f"The entry {entry!r} {where} is not UTF-8 text."
            raise UsageError(msg)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            msg = f"The count of {entry!r} {where} must be a whole number of 1 or more, not {count!r}."
            raise UsageError(msg)
    return {entry: count for entry, count in entries.items() if entry != _END}


def _is_text(entry: str) -> bool:
    """Whether ``entry`` can be encoded: a lone surrogate, as JSON may spell it, cannot."""
    try:
        entry.encode()
    except UnicodeEncodeError:
        return False
    return True


def rewrite(path: Path, change: Callable[[Baseline], Baseline]) -> Baseline:
    """Apply ``change`` to the baseline at ``path`` as it is now, write the result and return it.

    No other caller of this function can write in between; a missing file counts as empty.

    Raises:
        UsageError: the file is not a baseline any more.
        RecordingError: the place cannot be written.
    """
    with locked(path):
        changed = change(read(path) if path.exists() else Baseline())
        write(changed, path)
    return changed


def write(baseline: Baseline, path: Path) -> None:
    """Write ``baseline`` to ``path``, whole or not at all.

    Raises:
        RecordingError: the place cannot be written, or an entry names a file whose name is not text.
    """
    for entries in baseline.torch.values():
        for entry in entries:
            if not _is_text(entry):
                msg = f"{path} cannot be written: the entry {entry!r} is not UTF-8 text."
                raise RecordingError(msg)
    write_atomically(path, to_text(baseline).encode())


def to_text(baseline: Baseline) -> str:
    """Return the file's text: the same for the same findings, in any order."""
    versions = [_version(minor, baseline.torch[minor]) for minor in sorted(baseline.torch, key=_number)]
    body = ",\n".join(versions)
    return (
        f'{{\n "format": {FORMAT},\n "torch": {{\n{body}\n }}\n}}\n'
        if versions
        else f'{{\n "format": {FORMAT},\n "torch": {{}}\n}}\n'
    )


def _version(minor: str, entries: Mapping[str, int]) -> str:
    lines = [f"   {json.dumps(entry, ensure_ascii=False)}: {count}" for entry, count in sorted(entries.items())]
    return f'  "{minor}": {{\n' + ",\n".join([*lines, f'   "{_END}": 0']) + "\n  }"


def _number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", minor))
