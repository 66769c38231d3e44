"""The life of a marked test: its claims, its recording, and the ruling. State is kept in stashes."""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from _pytest.logging import LogCaptureHandler  # it has no public name

from compilescope.errors import CompilescopeError, UsageError
from compilescope.gate.places import spelt_as_recorded
from compilescope.plugin import failure_section
from compilescope.plugin.fixture import Watch, watching
from compilescope.plugin.isolation import isolated, start_over
from compilescope.plugin.marks import read_mark
from compilescope.plugin.names import OWN
from compilescope.plugin.ownership import WATCHING, is_ours, marks_of
from compilescope.plugin.session_baseline import is_seen_whole
from compilescope.plugin.session_report import Reporting

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from compilescope.plugin.marks import Claim
    from compilescope.plugin.rulings import Ruling

_WATCH: Final = pytest.StashKey[Watch]()
_RULINGS: Final = pytest.StashKey["tuple[Ruling, ...]"]()
_TRACE: Final = "torch.__trace"
_RUNTIME: Final = "compilescope-runtime"
_CALLED: Final = pytest.StashKey[bool]()
"""Set once the test function itself has passed: a test that was skipped or failed is not judged."""
_ISOLATING: Final = "_compilescope_isolated"


class Runtime:
    """The hooks that run during tests. Registered only if a test is marked or requests the fixture."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Judge a test that passed; a failed one is reported by pytest."""
        try:
            result = yield
        except BaseException:
            item.stash[_RULINGS] = ()
            raise
        watch = item.stash.get(_WATCH, None)
        _check_marks(item, watch)
        if watch is not None:
            rulings = item.stash[_RULINGS] = _rulings(item, watch)
            _raise_for(item, rulings)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note whether the test ran, and show the recording below a failure, after all captured output."""
        made = yield
        watch = item.stash.get(_WATCH, None)
        if call.when == "call":
            item.stash[_CALLED] = made.passed
        if watch is not None and made.failed and call.when != "teardown":
            rulings, verbosity = item.stash.get(_RULINGS, ()), item.config.getoption("verbose")
            made.sections.append(
                ("compilescope", failure_section.section(watch.recording, item.nodeid, rulings, verbosity))
            )
        return made


class Quiet:
    """The last hook before the test function, after all that other plugins set up around it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Keep torch's trace out of the captured output of a recorded test."""
        if _WATCH in item.stash:
            _keep_trace_out()


def prepare(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Arrange that ``items`` are isolated, and that the marked ones are recorded."""
    _ensure_runtime(config)
    reporting = _reporting(config)
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is None:
            continue
        watched = is_ours(item)
        if watched and reporting is not None:
            reporting.census.expected.add(item.nodeid)
        ours = WATCHING if watched else _ISOLATING
        # A new list: the variants of a parametrised test share theirs.
        item.fixturenames = _inserted(item, [name for name in names if name != ours], ours)  # type: ignore[attr-defined]


def _keep_trace_out() -> None:
    """Keep torch's trace out of the log that pytest captures: hundreds of empty lines.

    pytest adds its handlers to every logger that does not propagate, again in each phase of a test.
    """
    logger = logging.getLogger(_TRACE)
    for handler in tuple(logger.handlers):
        if isinstance(handler, LogCaptureHandler):
            logger.removeHandler(handler)


def _ensure_runtime(config: pytest.Config) -> None:
    if not config.pluginmanager.hasplugin(_RUNTIME):
        config.pluginmanager.register(Runtime(), _RUNTIME)
        config.pluginmanager.register(Quiet())


def _inserted(item: pytest.Item, names: list[str], ours: str) -> list[str]:
    """Put our fixture before all others of function scope and after those of wider scope.

    So what a module's fixture sets holds for all its tests, and what a test's fixtures compile is recorded.
    """
    definitions = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]  # noqa: SLF001 (pytest tells scopes nowhere else)
    scopes = [definitions[name][-1].scope if name in definitions else "function" for name in names]
    place = scopes.index("function") if "function" in scopes else len(names)
    return [*names[:place], ours, *names[place:]]


def watched(item: pytest.Item) -> Iterator[Watch]:
    """Isolate and record one run of ``item``: the body of a fixture."""
    _ensure_runtime(item.config)
    # Left by an earlier run, if a plugin reruns failed tests.
    if _RULINGS in item.stash:
        del item.stash[_RULINGS]
    item.stash[_CALLED] = False
    claims = _claims_of(item)
    _keep_trace_out()
    with contextlib.ExitStack() as stack:
        try:
            watch = stack.enter_context(watching(claims))
        except (CompilescopeError, ImportError) as error:
            raise _refusal(error) from None
        item.stash[_WATCH] = watch
        try:
            yield watch
            _conclude(item, watch)
        finally:
            del item.stash[_WATCH]


def _claims_of(item: pytest.Item) -> tuple[Claim, ...]:
    own = spelt_as_recorded(item.config.getini(OWN), Path.cwd())
    try:
        return tuple(read_mark(mark.name, mark.args, mark.kwargs, own=own) for mark in reversed(marks_of(item)))
    except UsageError as error:
        raise _refusal(error) from None


def _check_marks(item: pytest.Item, watch: Watch | None) -> None:
    """Fail a test with a mark that was not checked: on a custom kind of test, or added while it ran."""
    held = 0 if watch is None else watch.claimed
    if len(marks_of(item)) != held:
        said = "this test has marks that were not there at collection; they work on test functions, set at collection."
        raise _refusal(said)


def _refusal(error: object) -> BaseException:
    return pytest.fail.Exception(f"compilescope: {error}", pytrace=False)


def _conclude(item: pytest.Item, watch: Watch) -> None:
    """Keep the recording for the reports, and judge a test that requested the fixture while it ran."""
    late = _RULINGS not in item.stash and item.stash.get(_CALLED, False)
    rulings = _rulings(item, watch) if late else item.stash.get(_RULINGS, ())
    reporting = _reporting(item.config)
    if reporting is not None:
        reporting.add(item.nodeid, watch.recording, rulings)
    if late:
        _raise_for(item, rulings)


def _rulings(item: pytest.Item, watch: Watch) -> tuple[Ruling, ...]:
    reporting = _reporting(item.config)
    if reporting is None or reporting.ledger is None:
        return watch.rulings()
    rulings = watch.rulings()
    if all(is_seen_whole(ruling) for ruling in rulings):
        reporting.census.judged.add(item.nodeid)
    return reporting.ledger.hold(item.nodeid, rulings, watch.recording.meta.torch)


def _reporting(config: pytest.Config) -> Reporting | None:
    return config.pluginmanager.get_plugin(Reporting.NAME)


def _raise_for(item: pytest.Item, rulings: tuple[Ruling, ...]) -> None:
    """Fail the test, or xfail it, unless all of its claims hold."""
    # Under --runxfail there are no expected failures.
    excused = {"broken"} if not item.config.getoption("runxfail", default=False) else set()
    wrong = [ruling for ruling in rulings if ruling.status not in {"held", *excused}]
    if wrong:
        reporting = _reporting(item.config)
        baseline = None if reporting is None or reporting.ledger is None else reporting.ledger.path
        raise pytest.fail.Exception(failure_section.failure(wrong, item.nodeid, baseline), pytrace=False)
    broken = [ruling for ruling in rulings if ruling.status == "broken"]
    if broken:
        raise pytest.xfail.Exception("; ".join(dict.fromkeys(str(ruling.claim.broken) for ruling in broken)))


def isolated_if_loaded() -> Iterator[None]:
    """Isolate a test that is not recorded, if torch is loaded: the body of a fixture."""
    if "torch" not in sys.modules:
        try:
            yield
        finally:
            if "torch" in sys.modules:
                start_over()
        return
    with isolated():
        yield
