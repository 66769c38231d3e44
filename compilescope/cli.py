"""The command line. It does not import torch: a command does when it runs a workload."""

from __future__ import annotations

import io
import sys
import traceback
from typing import Any

import click

from compilescope._version import __version__
from compilescope.commands.check import check
from compilescope.commands.exit_codes import BROKEN, INTERRUPTED
from compilescope.commands.explain import explain
from compilescope.commands.lanes import lanes
from compilescope.commands.printing import Command, discard, show, tell
from compilescope.commands.report import report
from compilescope.errors import CompilescopeError
from compilescope.workloads.signals import TERMINATED, Terminated


class _Commands(Command, click.Group):
    """Turns what a command raises into one sentence and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 (click's own signature)
        """Run the program; its own output, or a usage error, may have nowhere to go."""
        try:
            # In standalone mode, click exits 1 if it cannot write its message: that would mean findings.
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except CompilescopeError as error:
            tell(f"Error: {error}")
            code = error.exit_code
        except click.ClickException as error:
            said = io.StringIO()
            error.show(said)
            tell(said.getvalue().rstrip("\n"))
            code = error.exit_code
        except click.Abort:
            tell("Interrupted.")
            code = INTERRUPTED
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CompilescopeError as error:
            tell(f"Error: {error}")
            ctx.exit(error.exit_code)
        except Terminated:
            tell("Terminated.")
            ctx.exit(TERMINATED)
        except KeyboardInterrupt:
            tell("Interrupted.")
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            # The reader of the report closed the pipe (... | head).
            discard(sys.stdout)
            ctx.exit(BROKEN)
        except Exception:  # noqa: BLE001 (the last resort: Python would exit 1, which means findings)
            tell(traceback.format_exc())
            tell("compilescope itself failed: please report the traceback above.")
            ctx.exit(BROKEN)


def _show_version(context: click.Context, _: click.Parameter, wanted: object) -> None:
    if wanted and not context.resilient_parsing:
        show(f"compilescope, version {__version__}\n")
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Explain what torch.compile did: every recompile, graph break and eager fallback, with its cause.

    \b
    compilescope report model.py          run a script and report
    compilescope report flux.py --sweep text_len=0,1,77
    compilescope check model.py --no-shape-recompile --max-graph-breaks 0
    compilescope explain view_base        what a kind of cause, or a rule such as CS203, means

    Settings come from the command line, else from COMPILESCOPE_* in the environment, else from
    [tool.compilescope] in pyproject.toml (targets, order, seed, format, count-runs, parity,
    baseline, strict, lanes, and the table budget). NO_COLOR turns colours off.
    """  # noqa: D301 (\b is click's mark for a paragraph that is not to be filled)


main.add_command(report)
main.add_command(check)
main.add_command(explain)
main.add_command(lanes)
