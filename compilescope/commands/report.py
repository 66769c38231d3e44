"""``compilescope report``: run a source, or read a recording, and show what torch.compile did."""

from __future__ import annotations

import os

import click

from compilescope.commands.exit_codes import exit_code
from compilescope.commands.output import deliver, plan_routes
from compilescope.commands.printing import Command, tell
from compilescope.commands.source import ABOUT_SOURCE, Request, files_of, obtain, say, source_of, source_options
from compilescope.config import load_config, working_folder
from compilescope.workloads.signals import signals_seen

_HELP = f"""Run SOURCE and report what torch.compile did: every recompile with its cause, every graph
break, every call that ran eagerly.

{ABOUT_SOURCE}
\b
Exit codes: 0  reported
            2  wrong usage, the workload crashed or ended with a failure, nothing was
               compiled, or none of the targets was compiled
          130  interrupted by Ctrl-C; what was recorded until then is reported and saved
          143  the same for SIGTERM, as when a CI job times out
"""


@click.command(cls=Command, help=_HELP, short_help="Run something and report what torch.compile did.")
@source_options
@click.pass_context
def report(context: click.Context, /, **options: object) -> None:
    """Run a source and show the recording."""
    request = Request(**options)  # type: ignore[arg-type]  # click gives each option its declared type
    config = load_config(working_folder(), os.environ)
    source, request = source_of(request)
    routes = plan_routes(request.formats or config.format, request.output, request.save_to, inputs=files_of(source))
    with signals_seen() as signals:
        recording = obtain(source, request, config, over=signals.wait)
        failures = deliver(recording, routes, saved=request.save_to, verbose=request.verbose)
        say(recording, request, routes)
        for failure in failures:
            tell(f"error: {failure}")
    context.exit(signals.code or (2 if failures else exit_code(recording)))
