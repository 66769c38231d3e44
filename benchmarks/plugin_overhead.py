"""Measures what the installed pytest plugin costs a suite that uses none of it.

    python benchmarks/plugin_overhead.py [--tests 2000] [--rounds 6] [--processes 15]

Start: a fresh process imports pytest, then the plugin, and takes the time of the second import alone.

Suite: a file of empty tests without marks is run by a fresh process in which every hook of the plugin is
wrapped in a clock. What the hooks took is set against what the whole session took, in the same run, so
that a slow machine slows both. The plugin has no hook that runs during tests unless a test is marked, so
there is nothing else that it could cost; a run with ``-p no:compilescope`` beside each, in the order
A B B A, shows that no more than noise is left. An empty test is the worst case: whatever a real test
does makes the share smaller.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_IMPORT = """
import pytest, time
before = time.perf_counter()
import compilescope.pytest_plugin
print(time.perf_counter() - before)
"""
_CLOCK = """
import functools, inspect, time
import pytest
import compilescope.pytest_plugin as plugin

SPENT, BEGAN = [0.0], time.perf_counter()

def clocked(hook):
    @functools.wraps(hook)
    def run(*args, **kwargs):
        before = time.perf_counter()
        try:
            return hook(*args, **kwargs)
        finally:
            SPENT[0] += time.perf_counter() - before
    return run

def clocked_wrapper(hook):
    @functools.wraps(hook)
    def run(*args, **kwargs):
        inner = hook(*args, **kwargs)
        next(inner)
        outcome = yield
        before = time.perf_counter()
        try:
            inner.send(outcome)
        except StopIteration as stop:
            return stop.value
        finally:
            SPENT[0] += time.perf_counter() - before
    return run

for name in [name for name in vars(plugin) if name.startswith("pytest_")]:
    hook = getattr(plugin, name)
    clock = clocked_wrapper if inspect.isgeneratorfunction(hook) else clocked
    setattr(plugin, name, clock(hook))

@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    open("clock.txt", "w").write(f"{SPENT[0]} {time.perf_counter() - BEGAN}")
"""
_TEST = "def test_{number}():\n    pass\n\n"
_WITH, _WITHOUT = ("-p", "clock"), ("-p", "no:compilescope")


def start_seconds(processes: int) -> list[float]:
    """Return how long the import of the plugin took in each of several fresh processes."""
    command = [sys.executable, "-c", _IMPORT]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(processes)]  # noqa: S603 (our own command)
    return [float(run.stdout) for run in runs]


def run_suite(folder: Path, arguments: tuple[str, ...]) -> float:
    """Run pytest in ``folder`` and return the CPU time of it."""
    before = os.times()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=environment)  # noqa: S603 (our own command)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def suite_shares(tests: int, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Return the share of the hooks in each run, and the CPU times with and without the plugin."""
    shares: list[float] = []
    times: dict[tuple[str, ...], list[float]] = {_WITH: [], _WITHOUT: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "clock.py").write_text(_CLOCK, encoding="utf-8")
        suite = "".join(_TEST.format(number=number) for number in range(tests))
        (folder / "test_suite.py").write_text(suite, encoding="utf-8")
        run_suite(folder, _WITH)  # warms the file cache and the byte code
        for number in range(rounds):
            for arm in (_WITH, _WITHOUT) if number % 2 == 0 else (_WITHOUT, _WITH):
                times[arm].append(run_suite(folder, arm))
            spent, whole = map(float, (folder / "clock.txt").read_text(encoding="utf-8").split())
            shares.append(spent / whole)
    return shares, times[_WITH], times[_WITHOUT]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--processes", type=int, default=15)
    options = parser.parse_args()
    starts = start_seconds(options.processes)
    print(
        f"import of the plugin     median {statistics.median(starts) * 1e3:.2f} ms, smallest {min(starts) * 1e3:.2f} ms"
    )
    shares, with_it, without_it = suite_shares(options.tests, options.rounds)
    print(f"hooks, of {options.tests} tests     median {statistics.median(shares):.3%}, largest {max(shares):.3%}")
    noise = max(without_it) / min(without_it) - 1
    less = statistics.median(with_it) / statistics.median(without_it) - 1
    print(f"CPU with and without it  {less:+.2%}; runs without it differ by {noise:.1%} among themselves")


if __name__ == "__main__":
    main()
