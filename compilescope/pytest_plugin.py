"""The pytest plugin: hooks only.

It is loaded by every pytest run of an environment in which compilescope is installed, so it imports
nothing at its start: neither torch nor the rest of compilescope. The implementation is in :mod:`compilescope.plugin`,
and is imported when a test is marked, requests the fixture, or a report is wanted. It runs under any pytest, so it uses
only what all of them have; if one is too old, the plugin is inactive.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Final

import pluggy
import pytest

from compilescope.plugin.names import BASELINE, FIXTURE, ISOLATE, MARKS, OWN, REPORT, UPDATE

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterable, Iterator

    from compilescope.plugin.fixture import Watch

_HINT = (
    "pytest reads @pytest.mark.{name}(f), with one class or function and nothing else, as a decorator of f. "
    "Write @pytest.mark.{name}(targets=f), or name it by a pattern such as 'Block.forward'."
)

NEEDS: Final = "pytest 7.2 and pluggy 1.2 or newer"
_SORTS_OF_MARKS: Final = {type(pytest.mark.skip), type(pytest.mark.skip.mark)}  # older pytests do not name them


def _lack() -> str | None:
    """Return why the plugin cannot work here, in a sentence."""
    try:
        pytest.hookimpl(wrapper=True)
        pytest.Config.ArgsSource  # noqa: B018 (asks whether it is there)
    except (AttributeError, TypeError):
        here = f"here are pytest {pytest.__version__} and pluggy {pluggy.__version__}"
        return f"compilescope: its pytest plugin needs {NEEDS}, and {here}."
    return None


LACK: Final = _lack()
"""Why the plugin is inactive, if it is."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings."""
    group = parser.getgroup("compilescope", "what torch.compile does (compilescope)")
    group.addoption(
        "--compilescope-report",
        dest=REPORT,
        metavar="FORMAT[:FILE]",
        action="append",
        default=[],
        help="write a report on all marked tests; without FILE, to the terminal. Repeatable.",
    )
    group.addoption(
        "--compilescope-baseline",
        dest=BASELINE,
        metavar="FILE",
        help="accept the findings in this file in marked tests; `compilescope check` reads the same file.",
    )
    group.addoption(
        "--compilescope-update-baseline",
        dest=UPDATE,
        action="store_true",
        help="accept the findings of marked tests and add them to the baseline.",
    )
    parser.addini(ISOLATE, "give every test an empty compile cache and its own Dynamo settings", type="bool")
    parser.addini(OWN, "folders that hold the project's own code, for limits on its graph breaks", type="args")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, and the report where one is wanted."""
    for name, says in MARKS.items():
        config.addinivalue_line("markers", f"{name}{says}")
    reports = config.getoption(REPORT) or config.getoption(BASELINE) or config.getoption(UPDATE)
    if LACK and (reports or config.getini(ISOLATE)):
        raise pytest.UsageError(LACK)
    if reports:
        from compilescope.plugin.session_report import Reporting  # noqa: PLC0415 (see above)

        config.pluginmanager.register(Reporting.plan(config), Reporting.NAME)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pluggy.Result[pytest.CollectReport], None]:
    """Catch a mark that pytest used as a decorator of its target: the test is not marked, or not there at all."""
    outcome = yield
    if outcome.excinfo is None:
        _hint_at_bare_marks(collector, outcome.get_result())


def _hint_at_bare_marks(collector: pytest.Collector, report: pytest.CollectReport) -> None:
    if report.failed:
        names = [name for name in MARKS if f"pytest.mark.{name}(" in str(report.longrepr)]
        report.sections += [("compilescope", hint) for hint in _hints(collector.config, names)]
    elif report.passed and type(collector) is pytest.Module:
        # Other collectors are text files, doctests and what plugins collect: nobody marks these. A module that was not
        # imported (--lf skips files) is not imported for this: reading `obj` would. A test with a bare mark gets the
        # error for what its mark lacks when it runs.
        tests = {getattr(node, "originalname", None) or node.name for node in report.result}
        hints = _hints(collector.config, _bare_marks(vars(collector).get("_obj"), tests))
        if hints:
            report.outcome = "failed"
            report.longrepr = "\n".join(hints)


def _hints(config: pytest.Config, names: Iterable[str]) -> list[str]:
    """Return the hints for misplaced marks, except for marks that the suite registers as its own."""
    names = list(names)
    if not names:
        return []
    from compilescope.plugin.ownership import is_registered_by_suite  # noqa: PLC0415 (see above)

    return [_HINT.format(name=name) for name in names if not is_registered_by_suite(config, name)]


def _bare_marks(module: object, tests: Container[str]) -> Iterator[str]:
    """Yield our marks without arguments on a function or class that is not a test.

    Only the type of a value is read: a lazy value may raise, or import half a library, for any other access.
    """
    if type(module) is not ModuleType:
        return
    for key, value in tuple(vars(module).items()):
        if key in tests:
            continue
        if type(value) is FunctionType or issubclass(type(value), type):
            marks = type.__getattribute__(value, "__dict__") if type(value) is not FunctionType else vars(value)
            found = marks.get("pytestmark", ())
            for mark in found if type(found) in {list, tuple} else (found,):
                if type(mark) in _SORTS_OF_MARKS and mark.name in MARKS and not mark.args and not mark.kwargs:
                    yield mark.name


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Find our tests, once every hook has added its marks; without any, nothing runs during tests."""
    config = session.config
    every = config.getini(ISOLATE)
    named = [
        item
        for item in session.items
        if every
        or FIXTURE in (getattr(item, "fixturenames", None) or ())
        or any(mark.name in MARKS for mark in item.iter_markers())
    ]
    if named:
        from compilescope.plugin import ownership  # noqa: PLC0415 (see above)

        ownership.settle(config, named)
        ours = [item for item in named if every or ownership.is_ours(item)]
        if ours:
            _take(config, ours)


def _take(config: pytest.Config, ours: list[pytest.Item]) -> None:
    """Arrange that our tests are judged, or refused if the plugin is inactive."""
    if LACK is None:
        from compilescope.plugin.session import prepare  # noqa: PLC0415 (see above)

        prepare(config, ours)
    elif not config.pluginmanager.hasplugin("compilescope-refusal"):
        from compilescope.plugin.old_pytest import Refusal  # noqa: PLC0415 (see above)

        config.pluginmanager.register(Refusal(LACK), "compilescope-refusal")


@pytest.fixture
def _compilescope_watch(request: pytest.FixtureRequest) -> Iterator[Watch]:
    """Isolate and record the test."""
    if LACK:
        raise pytest.fail.Exception(LACK, pytrace=False)
    from compilescope.plugin import session  # noqa: PLC0415 (see above)

    yield from session.watched(request.node)


@pytest.fixture
def _compilescope_isolated() -> Iterator[None]:
    """Isolate the test."""
    from compilescope.plugin import session  # noqa: PLC0415 (see above)

    yield from session.isolated_if_loaded()


@pytest.fixture
def compilescope(_compilescope_watch: Watch) -> Watch:
    """The recording of this test: ``recording``, ``freeze()``, ``warmup()`` and ``at(values)``."""
    return _compilescope_watch
