"""What ``-v`` adds to the text report: every compilation in order, every failing guard, points, config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compilescope.analysis.causes import roots_of
from compilescope.analysis.grouping import consequences_of
from compilescope.analysis.summary import display_names
from compilescope.render.text.code_objects import alternatives_sentence
from compilescope.render.text.layout import Block, Line, Section, styled
from compilescope.render.words import axes_note, kind_of, place, point_text, seconds
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.record import Compilation, EntryMiss, Failure, Recompile, Recording


def verbose_sections(recording: Recording) -> tuple[Section, ...]:
    """Return the sections that only ``-v`` shows."""
    names = display_names(recording)
    compilations = tuple(Block(tuple(_compilation(c, names))) for c in recording.compilations)
    points = tuple(Block((line,)) for line in _points(recording))
    config = tuple(Block((styled(f"  {name} = {value!r}"),)) for name, value in sorted(recording.meta.config.items()))
    run = recording.meta.run
    trace = (run.traceback or "").splitlines() if run is not None else []
    return (
        Section("Compilations in order", "compilation", compilations),
        Section("Sweep points", "point", points),
        Section("Traceback of the workload", "line", tuple(Block((styled(f"  {line}"),)) for line in trace)),
        Section("Configuration of Dynamo", "setting", config),
    )


def _compilation(compilation: Compilation, names: dict[str, str]) -> Iterator[Line]:
    facts = [
        seconds(compilation.seconds),
        "" if compilation.guards is None else f"{compilation.guards} guards",
        "" if compilation.operators is None else f"{compilation.operators} operators",
        "" if compilation.backend is None else f"backend {compilation.backend}",
        "" if compilation.point is None else f"at {point_text(compilation.point)}",
    ]
    outcome = compilation.outcome
    style = {"compiled": "green", "failed": "red", "limit": "red"}.get(outcome, "yellow")
    yield styled(
        f"  {compilation.id.ljust(5)} ",
        (outcome, style),
        "  ",
        (names.get(compilation.code, compilation.code), "bold"),
        f"  {', '.join(fact for fact in facts if fact)}",
    )
    error = compilation.error
    if error is not None:
        about = f" (about {error.source})" if error.source else ""
        at = f" at {place(error.where)}" if error.where else ""
        yield styled("        ", (f"{error.kind}: {error.type}: {error.message}{about}{at}", "red"))
    if compilation.recompile is not None:
        yield from _recompile(compilation.recompile)


def _recompile(recompile: Recompile) -> Iterator[Line]:
    driven = {True: "shape-driven", False: "not shape-driven", None: "not checked whether shape-driven"}
    moved = axes_note(recompile.axes)
    closest = f"closest entry {recompile.closest}" if recompile.closest else "no guard could be examined"
    yield styled("        ", "; ".join(part for part in (closest, driven[recompile.shape_driven], moved) if part))
    if recompile.alternatives:
        yield styled("        ", alternatives_sentence(recompile))
    for entry in recompile.entries:
        yield from _entry(entry)


def _entry(entry: EntryMiss) -> Iterator[Line]:
    roots, follow = roots_of(entry), consequences_of(entry)
    also = f" and {count(len(follow), 'consequence')}" if follow else ""
    yield styled("        ", (f"entry {entry.id}", "bold"), f": {count(len(roots), 'root')}{also}")
    for failure in roots:
        yield from _failure(failure)
    for failure in follow:
        yield styled(
            f"          follows from {failure.consequence_of}: ",
            (kind_of(failure), "cyan"),
            f"  {failure.source}: {failure.expected} -> {failure.actual}",
        )


def _failure(failure: Failure) -> Iterator[Line]:
    pad = " " * 12
    yield styled(
        "          ",
        (kind_of(failure), "cyan"),
        f"  {failure.source}: ",
        (f"{failure.expected} -> {failure.actual}", "bold"),
    )
    part = f" ({failure.part})" if failure.part else ""
    yield styled(pad, (f"guard {failure.guard_type}{part}: {failure.guard}", "dim"))
    if failure.raised:
        yield styled(pad, (f"it raised: {failure.raised}", "red"))
    if failure.where is not None:
        quoted = f": {failure.where.text.strip()}" if failure.where.text else ""
        yield styled(pad, (f"at {place(failure.where)}{quoted}", "dim"))


def _points(recording: Recording) -> Iterator[Line]:
    for sweep in recording.sweeps:
        for point in sweep.points:
            parity = point.parity
            result = "not compared with eager"
            if parity is not None:
                result = "bitwise equal" if parity.bitwise else f"relative L2 {parity.relative_l2:.2e}"
            yield styled(
                f"  {point_text(point.values)}  ",
                (point.status, "green" if point.status == "ok" else "red"),
                f"  {seconds(point.seconds)}, {result}" if point.error is None else f"  {point.error}",
            )
