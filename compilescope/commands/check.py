"""``compilescope check``: check a source against a budget and a baseline, for continuous integration."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from compilescope.analysis.rules import STALE_BASELINE, entry_of
from compilescope.commands.baseline import Wish, open_baseline
from compilescope.commands.exit_codes import check_exit_code
from compilescope.commands.limits import budget_from, limit_options
from compilescope.commands.output import deliver, plan_routes
from compilescope.commands.printing import Command, tell
from compilescope.commands.source import ABOUT_SOURCE, Request, files_of, obtain, say, source_of, source_options
from compilescope.config import load_config, working_folder
from compilescope.gate.judge import judge
from compilescope.wording import count
from compilescope.workloads.locate import RecordingSource
from compilescope.workloads.signals import signals_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compilescope.commands.baseline import Keeper
    from compilescope.config import Config
    from compilescope.gate.budget import Budget
    from compilescope.record import Recording
    from compilescope.workloads.locate import Source

_Taken = TypeVar("_Taken", Request, Wish)
_ARGUMENTS: Final = "compilescope.arguments"

_HELP = f"""Run SOURCE and check it against a budget: findings make the command fail.

Even without limits it fails if something was not observed or not compiled: nothing was compiled, a
target was not, a call ran eagerly, the recompile limit was hit, a cause is unknown, a point of the
sweep raised. Limits come from the options below and from [tool.compilescope.budget] in
pyproject.toml; an option overrides the setting of the same name.

{ABOUT_SOURCE}
A baseline lists accepted findings. Only --update-baseline and --update-new-only write it.

\b
Exit codes: 0  no findings, or only accepted ones
            1  findings
            2  wrong usage, an unreadable recording or baseline, or the workload crashed
          130  interrupted by Ctrl-C; what was recorded until then is reported and saved
          143  the same for SIGTERM, as when a CI job times out
"""


class _Remembering(Command):
    """Keeps its arguments as typed, so that it can print the command that accepts the findings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse."""
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Remembering, help=_HELP, short_help="Check a run against a budget and a baseline, for CI.")
@source_options
@limit_options
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE", help="File of accepted findings.")
@click.option("--update-baseline", is_flag=True, help="Write the baseline: add new findings, drop fixed entries.")
@click.option("--update-new-only", is_flag=True, help="Write the baseline: add new findings, drop nothing.")
@click.option("--strict/--no-strict", default=None, help="Fail if the baseline has fixed entries.")
@click.pass_context
def check(context: click.Context, /, **options: Any) -> None:  # noqa: ANN401 (click gives each option its type)
    """Run a source and judge the recording."""
    request, wish = _take(Request, options), _take(Wish, options)
    config = load_config(working_folder(), os.environ)
    budget = budget_from(options, config.budget)
    keeper = open_baseline(wish, config, context.meta[_ARGUMENTS])
    source, request = source_of(request)
    inputs = files_of(source) if keeper.path is None else {**files_of(source), keeper.path: "the baseline"}
    routes = plan_routes(request.formats or config.format, request.output, request.save_to, inputs=inputs)
    with signals_seen() as signals:
        recording, budget = _obtain(source, request, config, budget, over=signals.wait)
        settled = keeper.settle(judge(recording, budget), recording.meta.torch)
        recording = msgspec.structs.replace(recording, findings=settled.findings, judgement=settled.judgement)
        unwritten = () if settled.judgement.error is None else (settled.judgement.error,)
        failures = [*unwritten, *deliver(recording, routes, saved=request.save_to, verbose=request.verbose)]
        say(recording, request, routes)
        for remark in () if request.quiet else (*settled.remarks, *_conclusion(recording, keeper)):
            tell(remark)
        for failure in failures:
            tell(f"error: {failure}")
    context.exit(signals.code or (2 if failures else check_exit_code(recording)))


def _take(kind: type[_Taken], options: dict[str, Any]) -> _Taken:
    return kind(**{field.name: options[field.name] for field in dataclasses.fields(kind)})


def _obtain(
    source: Source, request: Request, config: Config, budget: Budget, *, over: Callable[[], None]
) -> tuple[Recording, Budget]:
    """Return the recording, and the budget with its targets.

    A run is recorded with everything that should be compiled as its targets, and the budget covers all of them. In a
    saved recording, the targets can only be looked up.
    """
    patterns = (*(request.target or config.targets), *budget.targets)
    if not isinstance(source, RecordingSource):
        targeted = dataclasses.replace(request, target=tuple(dict.fromkeys(patterns)))
        return obtain(source, targeted, config, over=over), budget
    recording = obtain(source, request, config, over=over, target_is_for_reading=True)
    targets = request.target or budget.targets
    if not targets and config.targets:
        targets = (*(target.selector for target in recording.targets), *config.targets)
    return recording, msgspec.structs.replace(budget, targets=tuple(dict.fromkeys(targets)))


def _conclusion(recording: Recording, keeper: Keeper) -> Iterator[str]:
    if not recording.findings:
        yield "compilescope check: passed"
        return
    yield f"compilescope check: {count(len(recording.findings), 'finding')}"
    if keeper.writes:
        return
    blind = [
        finding for finding in recording.findings if finding.rule != STALE_BASELINE.code and entry_of(finding) is None
    ]
    if not blind:
        yield f"To accept: {keeper.command}"
