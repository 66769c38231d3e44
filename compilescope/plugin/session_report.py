"""What is printed and written when the session ends, for all recorded tests, whichever process ran them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest
from msgspec.structs import replace

from compilescope.commands.output import plan_routes
from compilescope.errors import CompilescopeError, UsageError
from compilescope.files import write_atomically
from compilescope.plugin.failure_section import EVERYTHING, findings_of
from compilescope.plugin.judged_tests import Census, asks_for_all
from compilescope.plugin.names import BASELINE, REPORT, UPDATE
from compilescope.plugin.ownership import is_ours
from compilescope.plugin.session_baseline import Ledger
from compilescope.plugin.xdist import Handover, Workers, hand_over, is_worker
from compilescope.render.options import Options
from compilescope.render.registry import FORMATS
from compilescope.storage import merge
from compilescope.wording import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from compilescope.commands.output import Route
    from compilescope.plugin.rulings import Ruling
    from compilescope.record import Recording


_SHOWN: Final = 5
"""Most entries that are listed; the rest are counted."""


class Reporting:
    """Collects recordings; writes the reports and the baseline when the session ends.

    A worker of pytest-xdist writes nothing. A worker that ends without sending its results fails the session, as the
    report would be silent about its tests.
    """

    NAME: ClassVar = "compilescope-report"

    def __init__(self, routes: Sequence[Route], ledger: Ledger | None) -> None:
        self.ledger = ledger
        self.census = Census()
        self._routes = tuple(routes)
        self._tests: dict[str, Recording] = {}
        self._workers = Workers()
        self._said: list[str] = []
        self._shown: list[str] = []

    @classmethod
    def plan(cls, config: pytest.Config) -> Reporting:
        """Read the options, the baseline and every place of a report before any test runs.

        Raises:
            pytest.UsageError: a format is unknown, a place cannot be written, or the baseline cannot be read.
        """
        path, updating = config.getoption(BASELINE), config.getoption(UPDATE)
        if updating and path is None:
            msg = "--compilescope-update-baseline needs --compilescope-baseline=FILE."
            raise pytest.UsageError(msg)
        try:
            inputs = {} if path is None else {Path(path): "the baseline"}
            routes = plan_routes(config.getoption(REPORT), None, None, inputs=inputs)
            ledger = None if path is None else Ledger.open(Path(path), updating=updating)
        except UsageError as error:
            raise pytest.UsageError(str(error).replace("--format", "--compilescope-report")) from None
        return cls(routes, ledger)

    def add(self, nodeid: str, recording: Recording, rulings: Iterable[Ruling]) -> None:
        """Keep the recording of a test; if a test runs again, the last run counts."""
        self._tests[nodeid] = replace(recording, findings=findings_of(nodeid, rulings))

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Note tests that are not run."""
        self.census.partial |= any(is_ours(item) for item in items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note tests that are not collected: their file is broken, or skipped as a whole."""
        self.census.partial |= not report.passed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note tests that never began."""
        began = report.when != "setup" or report.passed
        self.census.partial |= not began and report.nodeid in self.census.expected

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:  # noqa: ANN401 (xdist may not be installed)
        """Expect the results of a worker of pytest-xdist."""
        self._workers.expect(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:  # noqa: ANN401 (as above)
        """Take the results of a worker of pytest-xdist."""
        self._workers.take(node, error)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send or write the results; an error here fails an otherwise successful session."""
        if is_worker(session.config):
            whole = merge(self._tests.values()) if self._tests else None
            found, met = ({}, {}) if self.ledger is None else (self.ledger.found, self.ledger.met)
            hand_over(session.config, Handover(whole, found, met, self.census))
            return
        failed = [*self._workers.missing(), *self._write_reports(session.config), *self._write_baseline(session.config)]
        self._said += failed
        if failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write_reports(self, config: pytest.Config) -> list[str]:
        """Return a sentence for each place that cannot be written."""
        handed = [handover.recording for handover in self._workers.handed()]
        parts = [*self._tests.values(), *(part for part in handed if part is not None)]
        if self._routes and not parts:
            self._said.append("No test was recorded, so no report was written.")
        if not parts:
            return []
        whole = merge(parts)
        arguments = ("pytest", *map(str, config.invocation_params.args))
        whole = replace(whole, meta=replace(whole.meta, argv=arguments))
        every = config.getoption("verbose") >= EVERYTHING
        return [failed for route in self._routes if (failed := self._deliver(whole, route, every=every))]

    def _deliver(self, recording: Recording, route: Route, *, every: bool) -> str | None:
        text = FORMATS[route.format].render(recording, Options(verbose=every, more="-vv"))
        if route.path is None:
            self._shown.append(text)
            return None
        try:
            write_atomically(route.path, text.encode())
        except CompilescopeError as error:
            return str(error)
        self._said.append(f"{route.path}: {count(len(recording.compilations), 'compilation')} ({route.format}).")
        return None

    def _write_baseline(self, config: pytest.Config) -> list[str]:
        """Return a sentence if it cannot be written."""
        if self.ledger is None:
            return []
        for handover in self._workers.handed():
            self.ledger.note(handover.found, handover.met)
            self.census.add(handover.census)
        if self.ledger.updating and not self.census.judged:
            self._said.append(f"No test was checked, so {self.ledger.path} was not written.")
            return []
        try:
            said = self.ledger.write()
        except CompilescopeError as error:
            return [str(error)]
        self._said += [] if said is None else [said]
        if self.census.is_whole and asks_for_all(config) and not self._workers.missing():
            self._said += _stale_lines(self.ledger)
        return []

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was written, and show what goes to the terminal."""
        if self._said or self._shown:
            terminalreporter.section("compilescope")
        for text in (*self._shown, *(f"{line}\n" for line in self._said)):
            terminalreporter.write(text)


def _stale_lines(ledger: Ledger) -> list[str]:
    stale = ledger.stale()
    if not stale:
        return []
    more = len(stale) - _SHOWN
    return [
        f"{ledger.path} accepts more findings than any test had. Remove or lower by hand:",
        *(f"  fixed: {entry}" for entry in stale[:_SHOWN]),
        *([f"  ... and {count(more, 'other entry', 'other entries')}."] if more > 0 else []),
    ]
