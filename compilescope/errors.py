"""The exceptions and warnings of compilescope, each with its exit code."""

from __future__ import annotations


class CompilescopeError(Exception):
    """An error that the user can fix; its text is one clear sentence.

    Attributes:
        exit_code: the exit code of a command that ends with it.
    """

    exit_code = 2


class RecordingError(CompilescopeError):
    """A file is not a recording, or not one that this version can read."""


class UnsupportedTorchError(CompilescopeError):
    """The installed torch is outside the versions whose internals are known."""


class WorkloadError(CompilescopeError):
    """What the user asked to run cannot be run as asked."""


class UsageError(CompilescopeError):
    """The options of a command contradict each other or name something unknown."""


class CompilescopeWarning(UserWarning):
    """A doubt about the measurement that does not stop the run."""
