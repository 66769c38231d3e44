"""What commands print: results on stdout, whose loss is an error; remarks on stderr, whose loss cannot be reported."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import click

from compilescope.errors import CompilescopeError
from compilescope.render.words import harmless

if TYPE_CHECKING:
    from typing import TextIO


class Command(click.Command):
    """A command that shows its help as it shows any result."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option that shows the help."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option


def _show_help(context: click.Context, _: click.Parameter, wanted: object) -> None:
    if wanted and not context.resilient_parsing:
        show(f"{context.get_help()}\n")
        context.exit()


def show(text: str, *, color: bool | None = None) -> None:
    """Print ``text`` to stdout as it stands.

    Args:
        text: with its final newline.
        color: whether to keep its escape sequences; None lets the terminal decide.

    Raises:
        CompilescopeError: stdout is closed or full, or its encoding cannot write the text.
        BrokenPipeError: the reader closed it.
    """
    if is_closed(sys.stdout):
        msg = "stdout is closed."
        raise CompilescopeError(msg)
    try:
        click.echo(text, nl=False, color=color)
    except BrokenPipeError:
        raise
    except UnicodeEncodeError as error:
        msg = f"stdout cannot be written: its encoding is {error.encoding}. Set PYTHONIOENCODING=utf-8."
        raise CompilescopeError(msg) from None
    except OSError as error:
        discard(sys.stdout)
        msg = f"stdout cannot be written: {error.strerror or error}."
        raise CompilescopeError(msg) from None


def tell(text: str) -> None:
    """Print lines to stderr; no CI system takes one of them for a command."""
    try:
        click.echo(harmless(text), err=True)
    except (OSError, ValueError):
        discard(sys.stderr)


def discard(stream: TextIO | None) -> None:
    """Drop what ``stream`` holds and all that follows: Python would complain again when it flushes at exit."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def is_closed(stream: TextIO | None) -> bool:
    """Whether nothing can be printed to ``stream``."""
    return stream is None or stream.closed


def is_one_place() -> bool:
    """Whether stdout and stderr go to the same terminal, file or pipe."""
    if is_terminal(sys.stdout) and is_terminal(sys.stderr):
        return True
    try:
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno()))
    except (AttributeError, OSError, ValueError):  # closed, or a stand-in without a file
        return False


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads ``stream``."""
    return stream is not None and not stream.closed and stream.isatty()
