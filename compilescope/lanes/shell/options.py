"""Options of pytest that a lane may have and a collection must not have.

Each is left out for one of three reasons: it writes a file, it starts or times processes, or it belongs to a plugin
that may be missing where the audit runs. None of them selects tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope.lanes.shell.words import Word

_VALUED: Final = frozenset(
    {
        *("--junitxml", "--junit-xml", "--junit-prefix", "--junitprefix", "--log-file", "--pastebin", "--basetemp"),
        *("-n", "--numprocesses", "--maxprocesses", "--dist", "--tx", "--max-worker-restart", "--rsyncdir", "--px"),
        *("--cov-report", "--cov-config", "--cov-context", "--cov-fail-under", "--cov-precision"),
        *("--timeout", "--timeout-method", "--timeout_method", "--session-timeout"),
        *(
            "--reruns",
            "--reruns-delay",
            "--only-rerun",
            "--rerun-except",
            "--force-flaky",
            "--max-runs",
            "--min-passes",
        ),
        *("--html", "--css", "--json-report-file", "--report-log", "--alluredir", "--metadata", "--md-report-output"),
        *("--durations", "--durations-min", "--instafail-path", "--memray-bin-path", "--benchmark-json"),
        *("--benchmark-storage", "--benchmark-save", "--compilescope-report"),
    }
)
"""Options with a value."""
_MAYBE_VALUED: Final = frozenset({"--cov", "--debug"})
"""Options with an optional value; argparse takes the next word for it unless it is an option."""
_PLAIN: Final = frozenset(
    {
        *("--no-cov", "--cov-append", "--cov-branch", "--no-cov-on-fail", "--cov-reset", "--self-contained-html"),
        *("--json-report", "--clean-alluredir", "--looponfail", "--forked", "--boxed", "--no-loadscope-reorder"),
        *("--cache-clear", "--instafail", "--timeout-disable-debugger-detection", "--benchmark-autosave"),
        *("--force-sugar", "--memray", "--compilescope-update-baseline"),
    }
)
_WORKERS: Final = re.compile(r"-n(\d+|auto|logical|=.*)")
"""``-n4``, one word."""
_RUNS_NOTHING: Final = frozenset(
    {
        *("--collect-only", "--collectonly", "--co", "--setup-plan", "--fixtures", "--funcargs", "--fixtures-per-test"),
        *("--markers", "--version", "-V", "--help", "-h", "--cache-show"),
    }
)


def runs_tests(words: Sequence[Word]) -> bool:
    """Whether a run of pytest with these arguments runs tests at all."""
    return not any(word.text in _RUNS_NOTHING for word in words)


def needed(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the arguments that a collection needs.

    Args:
        words: all arguments of a run of pytest.
    """
    rest = iter(words)
    word = next(rest, None)
    while word is not None:
        name, has_value, _ = word.text.partition("=")
        following = next(rest, None)
        if name in _VALUED and not has_value:
            following = next(rest, None)
        elif name in _MAYBE_VALUED and not has_value:
            if following is not None and not following.text.startswith("-"):
                following = next(rest, None)
        elif name not in _VALUED | _MAYBE_VALUED | _PLAIN and not _WORKERS.fullmatch(word.text):
            yield word
        word = following
