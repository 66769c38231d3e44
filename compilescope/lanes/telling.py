"""The text report of a lane audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.render.words import plain
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from compilescope.lanes.audit import Audit, Selection

_SHOWN: Final = 30
"""Lines of each list without ``-v``."""


def lines(result: Audit, *, verbose: bool) -> Iterator[str]:
    """Yield the report, line by line.

    Args:
        result: of the audit.
        verbose: whether every test is listed, and every case of its parameters.
    """
    for selection in result.lanes:
        selects = _selects(result, selection) if selection.selected else "SELECTS NO TEST"
        yield f"lane {plain(selection.lane.title)} {selects}"
    for unread in result.unread:
        yield f"lane {plain(unread.title)} COULD NOT BE READ: {_indented(unread.why)}"
    marks = {test: _marks(result.collected[test]) for test in result.unselected}
    title = f"{count(len(marks), 'test')} in no lane{' that could be read' if result.unread else ''}:"
    yield from _list(title, _tests(marks, verbose=verbose), verbose=verbose)
    skipped = {test: f"skipped here: {why}" for test, why in result.skipped.items()}
    yield from _list(
        f"{count(len(skipped), 'test')} skipped on this machine wherever selected:",
        _tests(skipped, verbose=verbose),
        verbose=verbose,
    )
    files = [f"{plain(file)}  left out by --ignore, norecursedirs or a conftest" for file in result.ignored]
    files += [f"{plain(file)}  skips itself here: {plain(why)}" for file, why in result.skipping.items()]
    yield from _list(
        f"{count(len(files), 'test file')} that no lane collects, so the tests in them are not known:",
        files,
        verbose=verbose,
    )
    if not marks and not skipped and not files:
        yield "Every test is in some lane." if not result.empty else "Every test is in some other lane."


def _indented(text: str) -> str:
    return "\n    ".join(plain(line) for line in text.splitlines())


def _selects(result: Audit, selection: Selection) -> str:
    selected = f"selects {len(selection.selected & result.collected.keys())} of {count(len(result.collected), 'test')}"
    skipped = len(selection.skipped.keys() & result.collected.keys())
    return f"{selected}, skips {skipped} of them here" if skipped else selected


def _list(title: str, lines: Sequence[str], *, verbose: bool) -> Iterator[str]:
    if not lines:
        return
    yield ""
    yield title
    shown = lines if verbose else lines[:_SHOWN]
    yield from (f"  {line}" for line in shown)
    if len(lines) > len(shown):
        yield f"  ... and {len(lines) - len(shown)} more: -v lists all"


def _marks(marks: Sequence[str]) -> str:
    return f"marked {', '.join(marks)}" if marks else "no marks"


def _tests(notes: Mapping[str, str], *, verbose: bool) -> list[str]:
    """Return a line for each test with its note; unless verbose, the cases of one function share a line."""
    if verbose:
        return [f"{plain(test)}  {plain(note)}" for test, note in notes.items()]
    functions: dict[tuple[str, str], list[str]] = {}
    for test, note in notes.items():
        functions.setdefault((test.partition("[")[0], note), []).append(test)
    return [
        f"{plain(cases[0] if len(cases) == 1 else name)}{_cases(cases)}  {plain(note)}"
        for (name, note), cases in functions.items()
    ]


def _cases(cases: Sequence[str]) -> str:
    return f" ({len(cases)} cases)" if len(cases) > 1 else ""
