"""A comparison as two tables: what arms cost, and how far they are from eager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table

if TYPE_CHECKING:
    from models.denoising.measures import Difference
    from models.denoising.results import Comparison, Measured

WIDTH: Final = 120
"""Columns that the tables want where no terminal says how many there are."""

NOT_MEASURED: Final = "not measured"
_GIB: Final = 2**30


def costs(found: Comparison) -> Table:
    """Return what each arm costs, request by request."""
    table = Table(title=f"{found.device}, {found.dtype}, torch {found.torch}")
    for name in ("request", "arm"):
        table.add_column(name, no_wrap=True)
    for name in ("ms/step p50", "vs eager", "start-up s", "peak GiB", "compiles"):
        table.add_column(name, justify="right")
    eager = found.arms[0].measured
    for index, reference in enumerate(eager):
        for arm in found.arms:
            one = arm.measured[index]
            table.add_row(str(one.request), arm.name, *_costs(one, reference))
    return table


def _costs(one: Measured, eager: Measured) -> tuple[str, ...]:
    return (
        _number(one.step_seconds, 1e3, 2),
        _percent(one.step_seconds, eager.step_seconds),
        _number(one.startup_seconds, 1, 2),
        _number(one.peak_bytes, 1 / _GIB, 2),
        str(one.compiles),
    )


def _number(value: float | None, unit: float, digits: int) -> str:
    return NOT_MEASURED if value is None else f"{value * unit:.{digits}f}"


def _percent(value: float | None, eager: float | None) -> str:
    if value is None or not eager:
        return NOT_MEASURED
    return f"{(value / eager - 1) * 100:+.1f}%"


def distances(found: Comparison) -> Table:
    """Return how far each arm is from eager, in images and in latents."""
    table = Table(title="Against the eager arm")
    for name in ("request", "arm", "space"):
        table.add_column(name)
    for name in ("PSNR dB", "max abs", "rel L2"):
        table.add_column(name, justify="right")
    table.add_column("bitwise")
    for one in found.differences:
        for space, difference in (("image", one.image), ("latent", one.latent)):
            table.add_row(str(one.request), one.arm, space, *_distance(difference))
    return table


def _distance(difference: Difference | None) -> tuple[str, ...]:
    if difference is None:
        return (NOT_MEASURED,) * 4
    return (
        f"{difference.psnr:.1f}",
        f"{difference.max_abs:.2e}",
        f"{difference.relative_l2:.2e}",
        "yes" if difference.bitwise else "no",
    )


def notes(found: Comparison) -> list[str]:
    """Return what the tables do not say, a sentence each: failures, and what makes an arm other than its name says."""
    lines = list(found.errors)
    for arm in found.arms:
        compiled, fallbacks = len(arm.recording.compiled), len(arm.recording.fallbacks)
        if arm.name == "compiled" and not compiled:
            lines.append("compiled: nothing was compiled.")
        if arm.name != "compiled" and compiled:
            lines.append(f"{arm.name}: {compiled} compilations in an arm that should have none.")
        if fallbacks:
            lines.append(f"{arm.name}: {fallbacks} fallbacks to eager; the recording names them.")
        if arm.later_compiles:
            lines.append(f"{arm.name}: {arm.later_compiles} compilations in turns that should have had none.")
        unsteady = [m.request for m in arm.measured if m.repeatable is False]
        lines += [f"{arm.name}, {request}: its turns ended in different bytes." for request in unsteady]
    raised = {one.request for arm in found.arms for one in arm.measured if one.error}
    unmeasured = [one for one in found.differences if one.note and one.request not in raised]
    return lines + [f"{one.arm}, {one.request}: {one.note}." for one in unmeasured]
