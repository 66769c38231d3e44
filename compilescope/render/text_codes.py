"""The text report's heart: each code object, and why it was compiled again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.analysis.causes import roots_of
from compilescope.analysis.kinds import KINDS
from compilescope.analysis.summary import display_name, gist, met_limit
from compilescope.record import Location
from compilescope.render.grouping import causes_of, code_reports
from compilescope.render.text_screen import Block, Line, Section, styled
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
    from collections.abc import Iterator

    from compilescope.record import Failure, Recompile, Recording
    from compilescope.render.grouping import CodeReport, ErrorGroup, RecompileGroup
    from compilescope.render.text_screen import Detail

_VALUE: Final = 28
_SOURCE: Final = 44
_RELATION: Final = 72
_PATH: Final = 40
_HEAD: Final = 8
"""Columns of the compile id that stands before a cause."""
_OUTCOMES: Final = {
    "skipped": "skipped",
    "limit": "refused by the limit",
    "failed": "failed",
    "empty": "with nothing to compile",
}


def codes_section(recording: Recording, detail: Detail) -> Section:
    """Return what was compiled, code object by code object."""
    reports = code_reports(recording)
    # Where all are targets, saying so of each tells nothing.
    teller = _Teller(detail, mark_targets=not all(report.target for report in reports))
    blocks = [block for report in reports for block in teller.blocks(report, depth=0)]
    return Section("Code objects", "code object", tuple(blocks), weighed="recompile", appetite=3)


class _Teller:
    """Tells of code objects one after the other, and gives each piece of advice once."""

    def __init__(self, detail: Detail, *, mark_targets: bool) -> None:
        self._detail = detail
        self._mark_targets = mark_targets
        self._given: set[str] = set()

    def blocks(self, report: CodeReport, depth: int, name: str | None = None) -> Iterator[Block]:
        pad = "  " * (depth + 1)
        groups = report.groups
        shown = groups[: self._detail.groups]
        mark = self._mark_targets and report.target
        lines = [_header(report, name, pad, mark=mark, full=self._detail.causes is None)]
        lines += [line for group in shown for line in self._group(group, pad + "  ")]
        hidden = sum(len(group.members) for group in groups[len(shown) :])
        if hidden:
            lines.append(styled(pad, (f"  ... {count(hidden, 'more recompile')}: -v shows all", "yellow")))
        lines += [line for group in report.errors[: self._detail.groups] for line in self._error(group, pad + "  ")]
        yield Block(tuple(lines), weight=len(report.recompiles))
        names = resume_names([child.code for child in report.children])
        for child in report.children:
            yield from self.blocks(child, depth + 1, names.get(child.code.id))

    def _group(self, group: RecompileGroup, pad: str) -> Iterator[Line]:
        many = f" x{len(group.members)}" if len(group.members) > 1 else ""
        ids = group.members[:1] if self._detail.causes is not None else group.members
        head = f"{', '.join(member.id for member in ids)}{many}".ljust(_HEAD - 1) + " "
        below = pad + " " * _HEAD
        if not group.causes:
            yield styled(pad, head, ("cause unknown: no guard could be examined", "yellow"))
            return
        for index, alike in enumerate(self._shown(group)):
            cause = alike[0]
            notes = _notes(group) if index == 0 else ""
            yield self._cause(group, alike, pad, "and".rjust(_HEAD - 1) + " " if index else head, notes)
            if self._detail.where and cause.where is not None:
                yield self._where(cause.where, below, cause.torch_where)
            yield from self._advice(cause, below)
        hidden = len(group.kinds) - (self._detail.causes or len(group.kinds))
        if hidden > 0:
            yield styled(below, (f"and {count(hidden, 'more kind')} of cause: -v shows all", "yellow"))
        if self._detail.alternatives:
            yield from _alternatives(group, below)

    def _shown(self, group: RecompileGroup) -> tuple[tuple[Failure, ...], ...]:
        if self._detail.causes is None:
            return tuple((cause,) for cause in group.causes)
        return group.kinds[: self._detail.causes]

    def _cause(self, group: RecompileGroup, alike: tuple[Failure, ...], pad: str, head: str, notes: str) -> Line:
        cause, *others = alike
        limit = self._detail.pairs
        pairs = group.transitions(cause) or ((cause.expected, cause.actual),)
        values = ", ".join(_pair(cause.source, pair, short=limit is not None) for pair in pairs[:limit])
        more = f", {len(pairs) - limit} more" if limit and len(pairs) > limit else ""
        more += f" (and {len(others)} like it)" if others else ""
        source = f"{clip(cause.source, _SOURCE) if limit else cause.source}: "
        beside = f"  {short_place(cause.where)}" if cause.where is not None and not self._detail.where else ""
        return styled(
            pad,
            head,
            (kind_of(cause), "cyan"),
            "  ",
            "" if all(is_relation(cause.source, expected) for expected, _ in pairs[:limit]) else source,
            (values + more, "bold"),
            (notes, "magenta"),
            (beside, "dim"),
            hang=len(pad) + _HEAD + 2,
        )

    def _where(self, where: Location, pad: str, inside: Location | None = None) -> Line:
        full = self._detail.causes is None
        path = place(where) if full else clip_path(place(where), _PATH)
        torch_line = f", in {place(inside)}" if full and inside is not None else ""
        return styled(pad, (f"at {path}{torch_line}", "dim"), (f": {where.text.strip()}" if where.text else "", "dim"))

    def _advice(self, cause: Failure, pad: str) -> Iterator[Line]:
        if self._detail.advice and cause.advice and cause.advice not in self._given:
            self._given.add(cause.advice)
            # With little room its beginning must do: explain has the rest.
            yield styled(pad, (f"hint: {cause.advice}", "green"), hang=len(pad) + 6 if self._detail.where else None)

    def _error(self, group: ErrorGroup, pad: str) -> Iterator[Line]:
        first = group.members[0]
        error = first.error
        if error is None:
            return
        many = f" x{len(group.members)}" if len(group.members) > 1 else ""
        color = "yellow" if first.outcome == "skipped" else "red"
        message = error.message if self._detail.causes is None else gist(error.message)
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
        *(f"{number} {_OUTCOMES[outcome]}" for outcome, number in sorted(report.outcomes.items())),
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


def _notes(group: RecompileGroup) -> str:
    recompiles = group.recompiles
    driven = sum(recompile.shape_driven is True for recompile in recompiles)
    unjudged = sum(recompile.shape_driven is None for recompile in recompiles)
    notes: list[str] = []
    if driven:
        # The closest entry is another one then, and its cause alone would contradict the count.
        by = "" if any(_is_shape(cause) for cause in group.causes) else ": an older entry differs in shape alone"
        share = "" if driven == len(recompiles) else f"{driven} of {len(recompiles)} "
        notes.append(f"{share}shape-driven{by}")
    if unjudged:
        notes.append("shape-driven or not was not looked at")
    notes += dict.fromkeys(note for note in (axes_note(r.axes) for r in recompiles) if note)
    return f"  ({'; '.join(notes)})" if notes else ""


def _is_shape(cause: Failure) -> bool:
    kind = KINDS.get(cause.kind or "")
    return kind is not None and kind.shape_driven


def _pair(source: str, pair: tuple[str, str], *, short: bool) -> str:
    expected, actual = pair[0], values_alone(*pair)
    if short:
        if is_relation(source, expected):
            expected, actual = clip(expected, _RELATION), clip(actual, _VALUE)
        else:
            expected, actual = clip_pair(expected, actual, _VALUE)
    return f"{expected} -> {actual}"


def _alternatives(group: RecompileGroup, pad: str) -> Iterator[Line]:
    member = next((m for m in group.members if m.recompile is not None and m.recompile.alternatives), None)
    if member is None or member.recompile is None:
        return
    which = f"{member.id}: " if len(group.members) > 1 else ""
    yield styled(pad, (f"{which}{alternatives_sentence(member.recompile)}", "dim"), hang=len(pad) + 2)


def alternatives_sentence(recompile: Recompile) -> str:
    """Say of every entry that came as near what it would have needed free."""
    needs = {entry.id: roots_phrase(roots_of(entry)) for entry in recompile.entries}
    if recompile.closest is not None and not needs.get(recompile.closest):
        needs[recompile.closest] = roots_phrase(causes_of(recompile))
    if recompile.closest is not None and recompile.axes and all(map(_is_shape, causes_of(recompile))):
        needs[recompile.closest] = " and ".join(recompile.axes)
    near = [entry for entry in (recompile.closest, *recompile.alternatives) if entry and needs.get(entry)]
    if not near:
        return f"as near: {', '.join(recompile.alternatives)}"
    first, *others = near
    rest = "".join(f"; {entry} had {needs[entry]} been free" for entry in others)
    return f"entry {first} would have served had {needs[first]} been free{rest}"
