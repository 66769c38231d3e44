"""What a finished recording means to the shell: the exit code, and what is said on stderr. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from compilescope.record import Recording

FINE: Final = 0
FOUND: Final = 1
BROKEN: Final = 2
INTERRUPTED: Final = 130
"""What a shell makes of a program that Ctrl-C ended; a caller in a loop stops on it. SIGTERM has its own code."""


def exit_code(recording: Recording) -> int:
    """Return what ``report`` exits with.

    ``report`` judges nothing, so what it found is no failure. It fails where it could not see what
    it was asked for: the workload crashed, called ``sys.exit`` with a failure, was interrupted,
    nothing at all was compiled, or nothing was that the user named as a target.
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

    Findings are 1. A workload that crashed is 2 and not 1: continuous integration is to tell a
    regression from a run that broke down.
    """
    run = recording.meta.run
    if run is not None and run.status == "interrupted":
        return run.exit_code or INTERRUPTED
    if run is not None and (run.status == "raised" or (run.status == "exited" and run.exit_code != 0)):
        return BROKEN
    return FOUND if recording.findings else FINE
