"""Graph breaks: one site in the code where tracing stopped, with the number of times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compilescope.capture import _torch, _torch_errors, _torch_places, describe, places, resume_lines
from compilescope.record import GraphBreak

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from traceback import FrameSummary
    from types import CodeType

    from compilescope.record import Location

_LINK: Final = re.compile(r"/gb/gb(\d+)\.html")
# A branch on a tensor is reported by the name of Dynamo's handler, without its entry in the registry.
_BRANCH: Final = "generic_jump"
_BRANCH_TITLE: Final = "Data-dependent branching"
_LONGEST_REASON: Final = 600


@dataclass(frozen=True, slots=True)
class BreakEvent:
    """One time that tracing stopped. ``skips_frame`` means that no part of the frame was compiled."""

    where: Location
    torch_where: Location | None
    reason: str
    skips_frame: bool


def registry_ids() -> dict[str, str]:
    """Return title -> id of the graph-break registry that ships with torch."""
    return {title: identity for identity, title in reversed(_torch.registry().items())}


def events_of(error: BaseException, code: CodeType | None = None) -> list[BreakEvent]:
    """Return the break that ended the tracing of a whole frame; empty if the error is of another kind."""
    stack = _torch_errors.user_stack(error)
    if not stack or not _torch_errors.is_unsupported(error) or _torch_errors.is_recompile_limit(error):
        return []
    if _torch_errors.error_kind(error) == "user_exception":
        return []
    return list(_events([(_underlying(error), stack)], code, skips_frame=True))


def resumed_events(count: int, code: CodeType | None = None) -> list[BreakEvent]:
    """Return the breaks that Dynamo noted after the first ``count``, each continued in a resume function."""
    return list(_events(_torch.breaks_since(count), code, skips_frame=False))


def _events(
    noted: Sequence[tuple[str, Sequence[FrameSummary]]], code: CodeType | None, *, skips_frame: bool
) -> Iterator[BreakEvent]:
    lines = resume_lines.of(code) if noted and code is not None else None
    for reason, stack in noted:
        place = places.choose(stack, lines).describe()
        if place.user is not None:
            yield BreakEvent(place.user, place.torch, reason, skips_frame=skips_frame)


def _underlying(error: BaseException) -> str:
    """Return the reason of the break itself, if Dynamo could not continue after it and raised another error.

    A break in a loop ends in "graph break in loop". If the first error was Dynamo's own, its text comes
    first; if it was the user's mistake, the second error was raised from it.
    """
    cause = error.__cause__
    if cause is None or not _torch_places.is_user_error(cause):
        return str(error)
    # The registry name of the second error says nothing about the first.
    return f"{cause}\n{_LINK.sub('', str(error))}"


def site(event: BreakEvent, code_id: str, ids: Mapping[str, str]) -> GraphBreak:
    """Describe one event as a site with a single event; its kind is left to :mod:`compilescope.analysis.breaks`."""
    title = event.reason.partition("\n")[0].strip()
    if title.startswith(_BRANCH):
        title = _BRANCH_TITLE
    return GraphBreak(
        code=code_id,
        file=event.where.file,
        line=event.where.line,
        kind="other",
        registry_id=_registry_id(event.reason, title, ids),
        reason=_reason(event.reason, title),
        events=1,
        skips_frame=event.skips_frame,
        text=event.where.text,
        function=event.where.function,
        torch_where=event.torch_where,
    )


def _registry_id(reason: str, title: str, ids: Mapping[str, str]) -> str | None:
    link = _LINK.search(reason)
    return f"GB{link[1]}" if link else ids.get(title)


def _reason(reason: str, title: str) -> str:
    """Return title and explanation; hints and links are left to ``compilescope explain``."""
    wanted = [title]
    wanted += (line.strip() for line in reason.splitlines() if line.strip().startswith("Explanation:"))
    return describe.shorten(" ".join(wanted), _LONGEST_REASON)


def join(sites: Iterable[GraphBreak]) -> tuple[GraphBreak, ...]:
    """Join single events into sites, adding up their events."""
    from compilescope.storage import merge_breaks  # noqa: PLC0415 (storage is for whoever joins recordings)

    return merge_breaks(sites)
