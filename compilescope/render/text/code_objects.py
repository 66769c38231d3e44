"""The main part of the text report: each code object, and why it was recompiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.analysis.causes import roots_of
from compilescope.analysis.changes import changes_of, is_shape_only
from compilescope.analysis.glossary import OUTCOMES
from compilescope.analysis.grouping import causes_of, code_reports
from compilescope.analysis.summary import display_name, gist, met_limit
from compilescope.record import Location
from compilescope.render.text.layout import Block, Line, Section, styled
from compilescope.render.words import (
    axes_note,
    clip,
    clip_pair,
    clip_path,
    is_relation,
    kind_of,
    place,
    resume_names,
    roots_phrase,
    seconds,
    short_place,
    values_alone,
)
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope.analysis.grouping import ChangeGroup, CodeReport, ErrorGroup
    from compilescope.record import Failure, Recompile, Recording
    from compilescope.render.text.layout import Detail

_VALUE: Final = 28
_SOURCE: Final = 44
_RELATION: Final = 72
_PATH: Final = 40
_HEAD: Final = 8
"""Columns of the compile id before a cause."""


def codes_section(recording: Recording, detail: Detail) -> Section:
    """Return what was compiled, code object by code object."""
    reports = code_reports(recording)
    # If all are targets, marking each is useless.
    teller = _Teller(detail, mark_targets=not all(report.target for report in reports))
    blocks = [block for report in reports for block in teller.blocks(report, depth=0)]
    return Section("Code objects", "code object", tuple(blocks), weighed="recompile", appetite=3)


class _Teller:
    """Reports code objects one after the other, and gives each piece of advice once."""

    def __init__(self, detail: Detail, *, mark_targets: bool) -> None:
        self._detail = detail
        self._mark_targets = mark_targets
        self._given: set[str] = set()

    def blocks(self, report: CodeReport, depth: int, name: str | None = None) -> Iterator[Block]:
        pad = "  " * (depth + 1)
        changes = report.changes
        shown = changes[: self._detail.groups]
        mark = self._mark_targets and report.target
        lines = [_header(report, name, pad, mark=mark, full=self._detail.pairs is None)]
        lines += [line for group in shown for line in self._change(group, pad + "  ")]
        if len(changes) > len(shown):
            more = count(len(changes) - len(shown), "more change")
            lines.append(styled(pad, (f"  ... {more}: {self._detail.more} shows all", "yellow")))
        lines += [line for group in report.errors[: self._detail.groups] for line in self._error(group, pad + "  ")]
        yield Block(tuple(lines), weight=len(report.recompiles))
        names = resume_names([child.code for child in report.children])
        for child in report.children:
            yield from self.blocks(child, depth + 1, names.get(child.code.id))

    def _change(self, group: ChangeGroup, pad: str) -> Iterator[Line]:
        many = f" x{len(group.members)}" if len(group.members) > 1 else ""
        ids = group.members[:1] if self._detail.pairs is not None else group.members
        head = f"{', '.join(member.id for member in ids)}{many}".ljust(_HEAD - 1) + " "
        below = pad + " " * _HEAD
        if not group.causes:
            yield styled(pad, head, ("cause unknown: no guard could be examined", "yellow"))
            return
        cause = group.causes[0]
        yield self._cause(group, pad, head)
        if self._detail.where and cause.where is not None:
            yield self._where(cause.where, below, cause.torch_where)
        # A size that changed to 0 and one that changed to 1 are one change, but the advice differs.
        for change in group.causes:
            yield from self._advice(change, below)
        if self._detail.alternatives:
            yield from _alternatives(group, below)

    def _cause(self, group: ChangeGroup, pad: str, head: str) -> Line:
        cause, limit = group.causes[0], self._detail.pairs
        pairs = group.transitions
        # If the values themselves are lists, a comma would not show where one recompile ends.
        between = "; " if any(", " in value for pair in pairs for value in pair) else ", "
        values = between.join(_pair(cause.source, pair, short=limit is not None) for pair in pairs[:limit])
        more = f", {len(pairs) - limit} more" if limit and len(pairs) > limit else ""
        more += f", at {group.places} places" if group.places > 1 else ""
        source = f"{clip(cause.source, _SOURCE) if limit else cause.source}: "
        beside = f"  {short_place(cause.where)}" if cause.where is not None and not self._detail.where else ""
        return styled(
            pad,
            head,
            (kind_of(cause), "cyan"),
            "  ",
            "" if all(is_relation(cause.source, expected) for expected, _ in pairs[:limit]) else source,
            (values + more, "bold"),
            (_notes(group), "magenta"),
            (beside, "dim"),
            hang=len(pad) + _HEAD + 2,
        )

    def _where(self, where: Location, pad: str, inside: Location | None = None) -> Line:
        full = self._detail.pairs is None
        path = place(where) if full else clip_path(place(where), _PATH)
        torch_line = f", in {place(inside)}" if full and inside is not None else ""
        return styled(pad, (f"at {path}{torch_line}", "dim"), (f": {where.text.strip()}" if where.text else "", "dim"))

    def _advice(self, cause: Failure, pad: str) -> Iterator[Line]:
        if self._detail.advice and cause.advice and cause.advice not in self._given:
            self._given.add(cause.advice)
            # Half of a hint may say the opposite of the whole.
            yield styled(pad, (f"hint: {cause.advice}", "green"), hang=len(pad) + 6, whole=True)

    def _error(self, group: ErrorGroup, pad: str) -> Iterator[Line]:
        first = group.members[0]
        error = first.error
        if error is None:
            return
        many = f" x{len(group.members)}" if len(group.members) > 1 else ""
        color = "yellow" if first.outcome == "skipped" else "red"
        message = error.message if self._detail.pairs is None else gist(error.message)
        text = message if error.type in message else f"{error.type}: {message}"
        ended = "refused" if met_limit(first) else f"{first.outcome}, {error.kind}"
        head = f"{first.id}{many}".ljust(_HEAD - 1) + " "
        yield styled(pad, head, (ended, color), f"  {text}")
        if self._detail.where and error.where is not None:
            yield self._where(error.where, pad + " " * _HEAD, error.torch_where)


def _header(report: CodeReport, name: str | None, pad: str, *, mark: bool, full: bool) -> Line:
    code = report.code
    name = name or display_name(code)
    where = Location(file=code.file, line=code.line)
    counted = [
        count(len(report.recompiles), "recompile") if report.recompiles and full else "",
        *(f"{number} {OUTCOMES[outcome]}" for outcome, number in sorted(report.outcomes.items())),
        f"{report.guards} guards" if report.guards else "",
        seconds(report.seconds),
    ]
    return styled(
        pad,
        (name, "bold"),
        (" [target]" if mark else "", "green"),
        f"  {len(report.compiled)} compiled, ",
        ", ".join(part for part in counted if part),
        (f"  {place(where) if full else short_place(where)}", "dim"),
        (f"  {code.qualname}" if name != code.qualname and full else "", "dim"),
    )


def _notes(group: ChangeGroup) -> str:
    recompiles = group.recompiles
    driven = sum(recompile.shape_driven is True for recompile in recompiles)
    unjudged = sum(recompile.shape_driven is None for recompile in recompiles)
    refused = sum(member.outcome != "compiled" for member in group.members)
    notes: list[str] = []
    if driven:
        notes.append(f"{'' if driven == len(recompiles) else f'{driven} of {len(recompiles)} '}shape-driven")
    if refused:
        share = "" if refused == len(group.members) else f"{refused} of {len(group.members)} "
        notes.append(f"{share}refused")
    if unjudged:
        notes.append("not checked whether shape-driven")
    if group.beside:
        notes.append(
            f"together with {', '.join(f'{kind_of(c)} of {clip(c.source, _VALUE)}' for c in group.beside[:2])}"
        )
    notes += dict.fromkeys(note for note in (axes_note(r.axes) for r in recompiles) if note)
    return f"  ({'; '.join(notes)})" if notes else ""


def _pair(source: str, pair: tuple[str, str], *, short: bool) -> str:
    expected, actual = pair[0], values_alone(*pair)
    if short:
        if is_relation(source, expected):
            expected, actual = clip(expected, _RELATION), clip(actual, _VALUE)
        else:
            expected, actual = clip_pair(expected, actual, _VALUE)
    return f"{expected} -> {actual}"


def _alternatives(group: ChangeGroup, pad: str) -> Iterator[Line]:
    member = next((m for m in group.members if m.recompile is not None and m.recompile.alternatives), None)
    if member is None or member.recompile is None:
        return
    which = f"{member.id}: " if len(group.members) > 1 else ""
    yield styled(pad, (f"{which}{alternatives_sentence(member.recompile)}", "dim"), hang=len(pad) + 2)


def alternatives_sentence(recompile: Recompile) -> str:
    """For every entry that only one change kept from matching, say what would have to be free to vary."""
    changes = {entry.id: changes_of(roots_of(entry)) for entry in recompile.entries}
    if recompile.closest is not None:
        changes[recompile.closest] = causes_of(recompile)
    confirmed = {entry.id for entry in recompile.entries if entry.confirmed}
    missed = [
        f"{identity} if {_could_vary(recompile, identity, changes[identity])} could vary"
        for identity in (recompile.closest, *recompile.alternatives)
        if identity in confirmed and changes.get(identity)
    ]
    if not missed:
        return f"as close: {', '.join(recompile.alternatives)}"
    first, *others = missed
    return "; ".join((f"entry {first.replace(' if ', ' would have matched if ', 1)}", *others))


def _could_vary(recompile: Recompile, identity: str, changes: Sequence[Failure]) -> str:
    if identity == recompile.closest and recompile.axes and is_shape_only(changes):
        return " and ".join(recompile.axes)
    return roots_phrase(changes)
