"""What a sweep shows about each axis, parity with eager, and the points that raised, in words for any format."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.analysis.blame import key
from compilescope.analysis.fates import distinct, fates_of, has_graph_for_each
from compilescope.analysis.grouping import failed_points
from compilescope.analysis.summary import gist, listed
from compilescope.render.text.layout import Block, Line, Section, styled
from compilescope.render.words import plain, point_text
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from compilescope.analysis.fates import Fates
    from compilescope.record import Parity, Recording, Scalar, Sweep

_VALUES: Final = 6
_ERRORS: Final = 3


@dataclass(frozen=True, slots=True)
class AxisLine:
    """One axis of a sweep in words.

    Attributes:
        axis: its name.
        values: the values asked for.
        verdict: whether it is free, and if not, where it compiles and why.
        free: whether the verdict is that it is free.
    """

    axis: str
    values: str
    verdict: str
    free: bool


def axis_lines(recording: Recording, sweep: Sweep) -> tuple[AxisLine, ...]:
    """Return a line for every axis."""
    found: list[AxisLine] = []
    for axis, values in sweep.axes.items():
        summary = None if sweep.summary is None else sweep.summary.get(axis)
        fates = fates_of(recording, sweep, axis)
        said = [*_exceptional(fates), *_axis_verdict(recording, sweep, axis, fates)]
        free = summary is not None and summary.free and len(said) == 1
        found.append(AxisLine(plain(axis), _values(values), plain("; ".join(said)), free))
    return tuple(found)


def _exceptional(fates: Fates) -> Iterator[str]:
    """Say what happened at the values that did not run in a graph."""
    for kind, values in fates.eager.items():
        yield f"{_values(values)}: ran eagerly ({'limit' if kind == 'recompile_limit' else kind})"
    for error, values in fates.raised.items():
        yield f"{_values(values)}: raised {error}"


def _axis_verdict(recording: Recording, sweep: Sweep, axis: str, fates: Fates) -> Iterator[str]:
    """Say whether the other values share graphs; nothing if too few are left."""
    summary = None if sweep.summary is None else sweep.summary.get(axis)
    values, exceptional = distinct(sweep.axes[axis]), bool(fates.eager or fates.raised)
    if len(values) == 1:
        yield "one value only: not varied"
        return
    if summary is None:
        yield "otherwise not checked" if exceptional else "not checked"
        return
    why = f" ({', '.join(summary.because)})" if summary.because else ""
    partly = f" (only {len(values) - len(fates.unseen)} of {len(values)} values ran)" if fates.unseen else ""
    other = "other " if exceptional else ""
    others = (*fates.ran, *fates.unseen)
    known = {key(value) for value in others}
    at = [value for value in summary.compiles_at if key(value) in known]
    if summary.free_except:
        yield f"compiles at {_and(summary.free_except)}{why}; free otherwise{partly}"
    elif has_graph_for_each(recording, sweep, axis, summary, fates.ran):
        yield f"every {other}value has its own graph{why}{partly}"
    elif at:
        yield f"compiles at {len(at)} of {count(len(others), f'{other}value')}: {_values(at)}{why}{partly}"
    elif summary.free and (not exceptional or len(fates.ran) > 1):
        yield f"free{' otherwise' if exceptional else ''}{partly}"
    elif not exceptional:
        yield f"not checked{partly}"


def parity_line(sweep: Sweep) -> str:
    """Return the worst difference from eager, or that it was not measured."""
    compared = [(point, point.parity) for point in sweep.points if point.parity is not None]
    if not compared:
        return "not compared with eager (use --parity)"
    parities = [parity for _, parity in compared]
    where, worst = max(compared, key=lambda pair: _badness(pair[1]))
    equal = sum(parity.bitwise for parity in parities)
    of = f"{len(compared)} of {count(len(sweep.points), 'point')} compared"
    if equal == len(compared):
        return f"parity with eager: bitwise equal ({of})"
    psnr = _worst((p.psnr for p in parities if p.psnr is not None), min)
    peak = "" if psnr is None else f", PSNR {psnr:.1f} dB"
    l2 = _worst((p.relative_l2 for p in parities), max) or 0.0
    largest = _worst((p.max_abs for p in parities), max) or 0.0
    at = point_text(where.values)
    return (
        f"parity with eager: worst relative L2 {l2:.2e} at {at}, max abs {largest:.2e}{peak}; "
        f"bitwise equal at {equal} ({of})" + ("" if math.isfinite(worst.relative_l2) else "; NOT FINITE")
    )


def _worst(values: Iterable[float], choose: Callable[[Iterable[float]], float]) -> float | None:
    """Choose among ``values``; NaN is worse than any number."""
    kept = list(values)
    return next((value for value in kept if math.isnan(value)), choose(kept) if kept else None)


def _badness(parity: Parity) -> tuple[bool, float]:
    return (not math.isfinite(parity.relative_l2), parity.relative_l2)


def error_lines(sweep: Sweep, more: str = "-v") -> tuple[str, ...]:
    """Return the errors of the points that raised, each with how many and where first."""
    groups = failed_points(sweep)
    lines = [
        f"{count(len(points), 'point')} raised {gist(error)} (first at {point_text(points[0].values)})"
        for error, points in list(groups.items())[:_ERRORS]
    ]
    if len(groups) > _ERRORS:
        lines.append(f"... and {count(len(groups) - _ERRORS, 'other error')}: {more} shows all points")
    return tuple(lines)


def sweep_title(sweep: Sweep) -> str:
    """Return what was swept, in which order, and how many points ran."""
    cut = "" if sweep.completed else ", interrupted"
    return f"{sweep.workload}, order {sweep.order}, {count(len(sweep.points), 'point')}{cut}"


def sweeps_section(recording: Recording, more: str) -> Section:
    """Return the sweeps, one block each."""
    blocks: list[Block] = []
    for sweep in recording.sweeps:
        # Axes that are not free come first: a screen may end before the last axis.
        axes = sorted(axis_lines(recording, sweep), key=lambda line: line.free)
        name = max((len(line.axis) for line in axes), default=0)
        values = max((len(line.values) for line in axes), default=0)
        lines: list[Line] = [styled("  ", (sweep_title(sweep), "bold"))]
        lines += [
            styled(
                f"    {a.axis:<{name}}  {a.values:<{values}}  ", (a.verdict, "green" if a.free else "magenta"), hang=6
            )
            for a in axes
        ]
        lines += [styled("    ", (error, "red"), hang=6) for error in error_lines(sweep, more)]
        lines.append(styled("    ", parity_line(sweep), hang=6))
        lines += [styled("    ", (f"warning: {warning}", "yellow"), hang=6) for warning in sweep.warnings]
        blocks.append(Block(tuple(lines)))
    return Section("Sweep" if len(blocks) == 1 else "Sweeps", "sweep", tuple(blocks))


def _values(values: Sequence[Scalar]) -> str:
    return plain(listed((str(value) for value in values), shown=_VALUES))


def _and(values: Sequence[Scalar]) -> str:
    *most, last = [str(value) for value in values]
    return f"{', '.join(most)} and {last}" if most else last
