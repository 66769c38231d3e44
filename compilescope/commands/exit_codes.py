"""The exit code of a finished recording, and its message on stderr. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from compilescope.record import Recording

FINE: Final = 0
FOUND: Final = 1
BROKEN: Final = 2
INTERRUPTED: Final = 130
"""The shell's exit code for a program that Ctrl-C ended; a loop in the caller stops on it. SIGTERM has its own code."""


def exit_code(recording: Recording) -> int:
    """Return what ``report`` exits with.

    ``report`` does not judge, so findings are not a failure. It fails if it could not record what it was asked for: the
    workload crashed, called ``sys.exit`` with a failure or was interrupted, nothing at all was compiled, or none of the
    targets that the user named was.
    """
    run = recording.meta.run
    if run is not None and run.status == "interrupted":
        return run.exit_code or INTERRUPTED
    if run is not None and (run.status == "raised" or (run.status == "exited" and run.exit_code != 0)):
        return BROKEN
    if not recording.compiled:
        return BROKEN
    unseen = {"skipped", "never_reached"}
    if recording.targets and all(target.status in unseen for target in recording.targets):
        return BROKEN
    return FINE


def check_exit_code(recording: Recording) -> int:
    """Return what ``check`` exits with, given the recording with its findings.

    Findings are 1. A workload that crashed is 2, so that CI can distinguish a regression from a broken run.
    """
    run = recording.meta.run
    if run is not None and run.status == "interrupted":
        return run.exit_code or INTERRUPTED
    if run is not None and (run.status == "raised" or (run.status == "exited" and run.exit_code != 0)):
        return BROKEN
    return FOUND if recording.findings else FINE
