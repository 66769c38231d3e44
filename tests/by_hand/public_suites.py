"""Runs public packages' own test suites with the pytest plugin and without it, and compares what became of them.

    python tests/by_hand/public_suites.py [--hostile] [--work FOLDER] [PACKAGE ...]

Every package gets a virtual environment of its own, without torch, and its tests are run from its source
distribution with their own configuration. Three runs are set against each other, each in a tree freshly unpacked:

* absent: compilescope is not installed (suites that run pytest themselves load whatever is);
* blocked: it is installed, and pytest is run with ``-p no:compilescope``;
* loaded: it is installed, and that is all.

Compared are the exit code, the tests collected and deselected, their order, what became of each in every phase with
its reason and the titles of what was captured, the warnings, and the modules that were imported. Where anything
differs all three are run again, twice; a test that comes out differently without the plugin too is called unsteady.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHECKOUT: Final = Path(__file__).resolve().parents[2]
ARMS: Final = ("absent", "blocked", "loaded")
REPEATS: Final = 3
TIMEOUT: Final = 1800
BRIEF: Final = 8

# A plugin of the inner runs, which lies in their environments.
RECORDER: Final = """
import json, os, pathlib, sys
import pytest

SEEN = {"collected": [], "deselected": [], "reports": [], "warnings": []}

def pytest_collection_finish(session):
    SEEN["collected"] += [item.nodeid for item in session.items]

@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids):
    SEEN["collected"] = list(ids)

def pytest_deselected(items):
    SEEN["deselected"] += [item.nodeid for item in items]

def pytest_collectreport(report):
    if report.outcome != "passed":
        SEEN["reports"].append([report.nodeid, f"collect {report.outcome}"])

def pytest_runtest_logreport(report):
    why = str(report.longrepr[-1]) if report.skipped and isinstance(report.longrepr, tuple) else ""
    titles = [title for title, _ in report.sections]
    said = f"{report.when} {report.outcome} {getattr(report, 'wasxfail', '')} {why} {titles or ''}"
    SEEN["reports"].append([report.nodeid, " ".join(said.split())])

def pytest_warning_recorded(warning_message, when, nodeid, location):
    SEEN["warnings"].append(f"{nodeid} {when} {warning_message.category.__name__}")

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        SEEN["modules"] = sorted(sys.modules)
        SEEN["plugin"] = session.config.pluginmanager.hasplugin("compilescope")
        pathlib.Path(os.environ["SUITES_REPORT"]).write_text(json.dumps(SEEN))
"""


@dataclass(frozen=True)
class Package:
    """A public package whose source distribution has its tests.

    Attributes:
        name: as the package index has it.
        version: the one that is tested.
        requires: what its tests need, besides pytest.
        arguments: what pytest is given: a part of the tests, or what their authors run them with.
        pytest: the requirement on pytest itself.
        build: what Python is called with in the tree first, where tests import a compiled part from there.
    """

    name: str
    version: str
    requires: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    pytest: str = "pytest"
    build: tuple[str, ...] = ()


@dataclass(frozen=True)
class Way:
    """A way to run a suite.

    Attributes:
        name: what the table calls it.
        arguments: of pytest.
        python: of the interpreter.
        environment: variables that are set.
        requires: plugins that are installed for it.
        prelude: of pytest, for a run of the whole suite before, in the same tree.
        in_order: whether reports and modules come in the same order every time, and from this process.
    """

    name: str
    arguments: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    prelude: tuple[str, ...] | None = None
    in_order: bool = True


PACKAGES: Final = (
    Package("attrs", "26.1.0", ("cloudpickle", "hypothesis", "pympler", "pytest-xdist[psutil]")),
    # Older than the plugin can use: it has to step aside.
    Package("cachetools", "5.3.3", ("pluggy<1.2", "pytest-timeout<2.2"), pytest="pytest==6.2.5"),
    Package("click", "8.5.1"),
    Package("idna", "3.20", ("hypothesis",)),
    Package("iniconfig", "2.3.1"),
    Package("jsonschema", "4.26.0", ("virtue", "jsonpath-ng"), ("jsonschema",)),
    Package("markdown-it-py", "4.3.0", ("flit_core<5", "pytest-regressions", "pytest-timeout", "requests")),
    Package("more-itertools", "11.2.1"),
    Package(
        "networkx",
        "3.6.1",
        ("pytest-cov",),
        ("--doctest-modules", *(f"networkx/{part}" for part in ("classes", "utils", "readwrite", "algorithms/flow"))),
    ),
    Package("packaging", "26.4", ("coverage[toml]", "hypothesis", "pretend", "tomli_w"), ("tests",)),
    Package("pluggy", "1.7.0", ("pytest-benchmark", "coverage")),
    Package(
        "pyinstrument",
        "5.1.3",
        ("setuptools", "flaky", "trio", "greenlet", "pytest-asyncio", "asgiref", "ipython"),
        build=("setup.py", "build_ext", "--inplace"),
    ),
    Package(
        "pytest",
        "9.2.0",
        ("argcomplete", "attrs", "hypothesis", "mock", "requests", "setuptools", "xmlschema"),
        # All of it takes eight minutes a run.
        tuple(f"testing/{part}.py" for part in ("test_config", "test_helpconfig", "test_mark", "python/collect")),
    ),
    Package("pytest-asyncio", "1.5.0", ("coverage", "hypothesis")),
    Package("pytest-mock", "3.17.0", ("coverage", "mock", "pytest-asyncio")),
    Package("python-dateutil", "4.0.0", ("pytest-cov", "freezegun", "hypothesis", "build", "attrs"), ("tests",)),
    Package("tomlkit", "0.15.2", ("pytest-cov~=4.0", "PyYAML~=6.0"), pytest="pytest~=7.2"),
)
LACKING: Final = ("-p", "no:tmpdir", "-p", "no:monkeypatch")
"""Takes fixtures away that most suites use, so that some of their tests fail."""
PLAIN: Final = Way("plain")
HOSTILE: Final = (
    Way("xdist", ("-n", "2"), requires=("pytest-xdist",), in_order=False),
    Way(
        "xdist, randomly",
        ("-p", "xdist", "-p", "randomly", "-n", "2", "--randomly-seed=7"),
        requires=("pytest-xdist", "pytest-randomly"),
        in_order=False,
    ),
    Way("randomly", ("--randomly-seed=7",), requires=("pytest-randomly",)),
    Way("importlib", ("--import-mode=importlib",)),
    Way("append", ("--import-mode=append",)),
    Way("collect only", ("--collect-only",)),
    Way("setup plan", ("--setup-plan",)),
    Way("doctests", ("--doctest-modules", "--doctest-glob=*.md")),
    Way("no terminal", ("-p", "no:terminal")),
    Way("few plugins", ("-p", "no:logging", "-p", "no:cacheprovider", "-p", "no:tmpdir", "-p", "no:warnings")),
    Way("strict", ("--strict-markers", "--strict-config")),
    Way("-W error", ("-W", "error")),
    Way("PYTHONWARNINGS", environment={"PYTHONWARNINGS": "error"}),
    Way("-X dev -bb", python=("-X", "dev", "-bb")),
    Way("-OO", python=("-OO",)),
    Way("plain asserts", ("--assert=plain", "--runxfail", "-s")),
    Way("last failed", ("--lf",), prelude=LACKING),
    Way("failed first", ("--ff",), prelude=LACKING),
    Way("first failure", ("-x", *LACKING)),
    Way("no autoload", environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
)


@dataclass(frozen=True)
class Run:
    """What became of a suite.

    Attributes:
        code: the exit code of pytest.
        facts: what was seen, by what it is about: a test, or a title such as "modules".
    """

    code: int
    facts: Mapping[str, tuple[str, ...]]
    collected: int = 0

    def counts(self) -> str:
        """Return how many tests ended how."""
        found = Counter(_worst(said) for name, said in self.facts.items() if name.startswith("test "))
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items())) or "none ran"


def main() -> int:
    """Run what the command line asks for; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=[package.name for package in PACKAGES])
    parser.add_argument("--hostile", action="store_true", help="run them in unusual ways, too")
    parser.add_argument("--work", type=Path, default=Path("/tmp/x/suites"))  # noqa: S108 (a cache that anyone may drop)
    asked = parser.parse_args()
    unknown = set(asked.packages) - {package.name for package in PACKAGES}
    if unknown:
        parser.error(f"no such package here: {', '.join(sorted(unknown))}")
    differ = False
    _print_row(("package", "version", "way", "collected", *(f"{arm}: exit, outcomes" for arm in ARMS[::2]), ""))
    for package in PACKAGES:
        if package.name in asked.packages:
            bench = Bench(package, asked.work / package.name)
            bench.prepare()
            for way in (PLAIN, *HOSTILE) if asked.hostile else (PLAIN,):
                differ |= _compare(bench, way)
    return int(differ)


class Bench:
    """A package's environment and tree."""

    def __init__(self, package: Package, folder: Path) -> None:
        self.package = package
        self._folder = folder
        self._tree = folder / "tree"
        self._temporary = folder / "tmp"
        self._python = folder / "venv" / "bin" / "python"

    def prepare(self) -> None:
        """Make the environment anew, with all but compilescope itself."""
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "logs").mkdir(parents=True)
        _call(sys.executable, "-m", "venv", str(self._folder / "venv"))
        name = self.package.name
        pinned = f"{name}=={self.package.version}"
        self._pip("download", "--no-deps", "--no-binary", name, "--dest", str(self._folder), pinned)
        # pytest requires itself in the wording of its own distribution.
        own = () if name == "pytest" else (self.package.pytest,)
        self._pip("install", str(self._archive()), *own, *self.package.requires, *_light_requirements())
        self._pip("wheel", "--no-deps", "--wheel-dir", str(self._folder), str(CHECKOUT))
        packages = Path(
            _call(str(self._python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        )
        if (packages / "torch").exists():
            message = f"{name} requires torch, so it cannot show that the plugin does without"
            raise RuntimeError(message)
        (packages / "suites_recorder.py").write_text(RECORDER, encoding="utf-8")

    def runs(self, way: Way) -> dict[str, Run]:
        """Run the suite on every arm."""
        try:
            if way.requires:
                self._pip("install", *way.requires)
            return {arm: self._run(arm, way) for arm in ARMS}
        finally:
            taken = set(way.requires) - {requirement.partition("[")[0] for requirement in self.package.requires}
            if taken:
                self._pip("uninstall", "--yes", *taken)

    def _run(self, arm: str, way: Way) -> Run:
        if arm == "absent":
            self._pip("uninstall", "--yes", "compilescope")
        else:
            self._pip("install", "--no-deps", str(next(self._folder.glob("compilescope-*.whl"))))
        self._unpack()
        if way.prelude is not None:
            self._pytest(arm, Way("prelude", way.prelude))
        code = self._pytest(arm, way)
        seen = self._seen()
        expected = arm == "loaded" and "PYTEST_DISABLE_PLUGIN_AUTOLOAD" not in way.environment
        if seen and seen["plugin"] is not expected:
            message = f"{self.package.name}, {arm}: the plugin was{'' if seen['plugin'] else ' not'} loaded"
            raise RuntimeError(message)
        return Run(code, _facts(seen, way), len(seen.get("collected", ())))

    def _pytest(self, arm: str, way: Way) -> int:
        self._report().unlink(missing_ok=True)
        blocked = ("-p", "no:compilescope") if arm == "blocked" else ()
        recorded = ("-m", "pytest", "-p", "suites_recorder")
        command = (str(self._python), *way.python, *recorded, *blocked, *way.arguments, *self.package.arguments)
        log = self._folder / "logs" / f"{way.name} {arm}.txt".replace(" ", "_").replace(",", "")
        with log.open("w", encoding="utf-8") as file:
            environment = {**self._environment(), **way.environment}
            done = subprocess.run(
                command,
                cwd=self._tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
        return done.returncode

    def _environment(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "COV"))}
        path = os.pathsep.join((str(self._python.parent), plain.get("PATH", "")))
        own = {"SUITES_REPORT": str(self._report()), "TMPDIR": str(self._temporary)}
        return {**plain, **own, "PATH": path, "PYTHONHASHSEED": "0", "COLUMNS": "80"}

    def _unpack(self) -> None:
        # Reasons name the folders that pytest makes, by a number that counts on.
        for folder in (self._tree, self._temporary):
            shutil.rmtree(folder, ignore_errors=True)
        self._temporary.mkdir()
        unpacked = self._folder / "unpacked"
        with tarfile.open(self._archive()) as archive:
            archive.extractall(unpacked, filter="data")
        next(unpacked.iterdir()).rename(self._tree)
        if self.package.build:
            _call(str(self._python), *self.package.build, folder=self._tree)

    def _seen(self) -> dict[str, Any]:
        written = self._report()
        seen: dict[str, Any] = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
        return seen

    def _report(self) -> Path:
        return self._folder / "report.json"

    def _archive(self) -> Path:
        return next(self._folder.glob("*.tar.gz"))

    def _pip(self, *arguments: str) -> None:
        _call(str(self._python), "-m", "pip", *arguments)


def _facts(seen: Mapping[str, Any], way: Way) -> dict[str, tuple[str, ...]]:
    """Bring what the recorder wrote down into a form in which equal runs are equal."""
    facts: dict[str, tuple[str, ...]] = {}
    for test, said in seen.get("reports", ()):
        facts[f"test {test}"] = (*facts.get(f"test {test}", ()), said)
    order = tuple(facts)
    for title in ("collected", "deselected", "warnings"):
        found = seen.get(title, ())
        facts[title] = tuple(found if way.in_order else sorted(found))
    if way.in_order:
        ours = ("compilescope.", "__editable__")
        facts["modules"] = tuple(name for name in seen.get("modules", ()) if not f"{name}.".startswith(ours))
        facts["order"] = order
    return facts


def _compare(bench: Bench, way: Way) -> bool:
    """Print the row of one suite; return whether anything differs."""
    rounds = [bench.runs(way)]
    while len(rounds) < REPEATS and any(_unlike(rounds)):
        rounds.append(bench.runs(way))
    unlike = [(what, arms, _is_apart(arms)) for what, arms in _unlike(rounds)]
    differ = any(apart for _, _, apart in unlike)
    verdict = "DIFFERENT" if differ else "unsteady" if unlike else "equal"
    first, package = rounds[0], bench.package
    outcomes = (f"{first[arm].code}, {first[arm].counts()}" for arm in ARMS[::2])
    _print_row((package.name, package.version, way.name, str(first["loaded"].collected), *outcomes, verdict))
    for what, arms, apart in unlike:
        _say(f"    {'DIFFERENT' if apart else 'unsteady'}: {what}")
        for arm, said in arms.items():
            _say(f"        {arm}: {_brief(said, arms['absent' if arm == 'loaded' else 'loaded'])}")
    return differ


_Said = frozenset[tuple[str, ...]]


def _unlike(rounds: Sequence[Mapping[str, Run]]) -> Iterator[tuple[str, Mapping[str, _Said]]]:
    """Yield what is not the same on all arms in all rounds: its name, and what it was on each."""
    told = [{arm: {"exit code": (str(run.code),), **run.facts} for arm, run in each.items()} for each in rounds]
    for name in dict.fromkeys(name for each in told for facts in each.values() for name in facts):
        arms = {arm: frozenset(each[arm].get(name, ()) for each in told) for arm in ARMS}
        if len(frozenset().union(*arms.values())) > 1:
            yield name, arms


def _is_apart(arms: Mapping[str, _Said]) -> bool:
    """Tell whether what was seen with the plugin was never seen without, on either arm."""
    return any(arms["loaded"].isdisjoint(arms[arm]) for arm in ARMS[:2])


def _brief(said: _Said, other: _Said) -> str:
    """Tell what was said; where that is long, how long, and what of it the other arm does not have."""
    if all(len(each) <= BRIEF for each in said):
        return " or ".join("; ".join(each) or "nothing" for each in sorted(said))
    known = {line for each in other for line in each}
    new = list(dict.fromkeys(line for each in sorted(said) for line in each if line not in known))
    return f"{sorted({len(each) for each in said})} lines, only here: {new[:BRIEF]}{' ...' if new[BRIEF:] else ''}"


def _worst(said: tuple[str, ...]) -> str:
    outcomes = [line.split()[1] for line in said]
    return next((outcome for outcome in ("failed", "skipped") if outcome in outcomes), "passed")


@functools.cache
def _light_requirements() -> tuple[str, ...]:
    """Return what compilescope requires but torch, which no suite without marks has a use for."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(requirement for requirement in project["dependencies"] if not requirement.startswith("torch"))


def _call(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    if done.returncode:
        message = f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        raise RuntimeError(message)
    return done.stdout


def _print_row(cells: tuple[str, ...]) -> None:
    _say(" | ".join(cell.ljust(width) for cell, width in zip(cells, (15, 7, 15, 9, 40, 40, 0), strict=True)).rstrip())


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
