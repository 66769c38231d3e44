"""The command line. It imports no torch: a command does where it runs a workload."""

from __future__ import annotations

import os
import sys
import traceback

import click

from compilescope._version import __version__
from compilescope.commands.check import check
from compilescope.commands.explain import explain
from compilescope.commands.lanes import lanes
from compilescope.commands.report import report
from compilescope.commands.verdict import BROKEN, INTERRUPTED
from compilescope.errors import CompilescopeError
from compilescope.workload.signals import TERMINATED, Terminated


class _Commands(click.Group):
    """Turns what a command raises into one sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CompilescopeError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)
        except Terminated:
            click.echo("Terminated.", err=True)
            ctx.exit(TERMINATED)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            # Whoever read the report has had enough (... | head); Python would complain again when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN)
        except Exception:  # noqa: BLE001 (the last resort: Python would exit 1, which means findings)
            click.echo(traceback.format_exc(), err=True)
            click.echo("compilescope itself failed: please report the traceback above.", err=True)
            ctx.exit(BROKEN)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="compilescope")
def main() -> None:
    """Explain what torch.compile did: every recompile, graph break and eager fallback, with its cause.

    \b
    compilescope report model.py          run a script and report
    compilescope report flux.py --sweep text_len=0,1,77
    compilescope check model.py --no-shape-recompile --max-graph-breaks 0
    compilescope explain view_base        what a kind of cause, or a rule such as CS203, means

    Settings: the command line, then COMPILESCOPE_* in the environment, then [tool.compilescope] in
    pyproject.toml (targets, order, seed, format, count-runs, parity, baseline, strict, lanes, and the
    table budget). NO_COLOR turns colours off.
    """  # noqa: D301 (\b is click's mark for a paragraph that is not to be filled)


main.add_command(report)
main.add_command(check)
main.add_command(explain)
main.add_command(lanes)
