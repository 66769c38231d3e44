"""What ``report`` and ``check`` share: their options, and turning SOURCE into a recording."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from compilescope.analysis.summary import alarms, verdict
from compilescope.commands.model_options import MODEL_OPTIONS, OF_MODELS, ModelRequest, model_options
from compilescope.commands.printing import is_one_place, tell
from compilescope.errors import UsageError
from compilescope.render.registry import FORMATS
from compilescope.storage import load
from compilescope.wording import listing
from compilescope.workloads.exits import hard_exits_seen
from compilescope.workloads.folder import folder_kept
from compilescope.workloads.locate import (
    ModuleSource,
    RecordingSource,
    ScriptSource,
    WorkloadSource,
    locate,
    locate_module,
)
from compilescope.workloads.points import RANDOM, parse_order
from compilescope.workloads.streams import streams_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compilescope.commands.output import Route
    from compilescope.config import Config
    from compilescope.record import Recording
    from compilescope.workloads.locate import Source
    from compilescope.workloads.points import Order

_Command = TypeVar("_Command", bound="Callable[..., Any]")

ABOUT_SOURCE: Final = """SOURCE is one of

\b
  model.py:Net         a model: an nn.Module class, a module, or a function that builds one,
                       also diffusers:FluxTransformer2DModel; see --input, --compile, --sweep
  script.py            run as __main__; its own arguments follow after --
  -m package.module    the same, as python -m does
  workloads.py         a file that uses compilescope.workload: its workloads are swept
  file.py:name         one workload or function of a file
  package.module:name  the same for a module (package.module: all its workloads)
  recording.json       a recording written by --save

The report goes to stdout; progress, warnings and a one-line summary go to stderr. What the program
prints through sys.stdout goes to stderr too. What its subprocesses and C libraries write to file
descriptor 1 does not: give the report a file (-o) where that matters. Compilations inside subprocesses are not
recorded.
"""
"""For the help of a command that takes SOURCE."""


@dataclass(frozen=True, slots=True)
class Request(ModelRequest):
    """The options that ``report`` and ``check`` share; None or empty for an option that was not given."""

    module: str | None
    source: str
    script_args: tuple[str, ...]
    sweep: tuple[str, ...]
    order: str | None
    seed: int | None
    target: tuple[str, ...]
    formats: tuple[str, ...]
    output: str | None
    save_to: Path | None
    parity: bool | None
    device: str | None
    set_: tuple[str, ...]
    count_runs: bool | None
    verbose: bool
    quiet: bool


_OPTIONS: Final = (
    click.option(
        "-m", "module", metavar="MODULE", help="Run a module as python -m does; its arguments follow after --."
    ),
    click.argument("source", required=False, default=""),
    click.argument("script_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]"),
    click.option("--sweep", multiple=True, metavar="AXIS=V1,V2", help="Override the values of one axis."),
    click.option("--order", metavar="ORDER", help="grid, one_at_a_time or random, each also with +return_to_start."),
    click.option("--seed", type=int, help="Seed of --order random."),
    click.option("--target", multiple=True, metavar="PATTERN", help="Qualified names of code that should be compiled."),
    click.option(
        "--format", "formats", multiple=True, metavar="FMT[:FILE]", help=f"{listing(FORMATS, last='or')}; repeatable."
    ),
    click.option("-o", "--output", metavar="FILE", help="Output file for a --format given without one; - is stdout."),
    click.option(
        "--save", "save_to", type=click.Path(path_type=Path), metavar="FILE", help="Save the recording as JSON."
    ),
    click.option("--parity/--no-parity", default=None, help="Run every point again eagerly and compare the results."),
    click.option(
        "--device", metavar="DEVICE", help="Device passed to the workload's factory; meta needs no weights and no GPU."
    ),
    click.option(
        "--set", "set_", multiple=True, metavar="NAME=VALUE", help="Value for another parameter of the factory."
    ),
    *MODEL_OPTIONS,
    click.option(
        "--count-runs/--no-count-runs", default=None, help="Compare calls with graph runs to detect eager calls."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show everything instead of one screen."),
    click.option("-q", "--quiet", is_flag=True, help="No progress and no summary on stderr."),
)


def source_options(command: _Command) -> _Command:
    """Give ``command`` the options that :class:`Request` holds."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def source_of(request: Request) -> tuple[Source, Request]:
    """Return the source that the command line names, and the request with the program's own arguments.

    Raises:
        UsageError: it names nothing.
        WorkloadError: the source does not exist.
    """
    if request.module is None:
        if not request.source:
            msg = "Give a SOURCE (a model, a script, a workload, a recording), or -m MODULE."
            raise UsageError(msg)
        return locate(request.source), request
    # After -m every other word belongs to the program.
    left = (request.source, *request.script_args) if request.source else request.script_args
    named = dataclasses.replace(request, source=f"-m {request.module}", script_args=left)
    return locate_module(request.module), named


def files_of(source: Source) -> dict[Path, str]:
    """Return the files that ``source`` reads, each with its role, so that nothing overwrites them."""
    if isinstance(source, RecordingSource):
        return {source.path: "the recording that is read"}
    if isinstance(source, ScriptSource):
        return {source.path: "the program that is run"}
    if isinstance(source, WorkloadSource) and isinstance(source.module, Path):
        return {source.module: "the program that is run"}
    stem = Path(*str(source.name if isinstance(source, ModuleSource) else source.module).split("."))
    return dict.fromkeys((stem.with_suffix(".py"), stem / "__init__.py"), "the program that is run")


def obtain(
    source: Source,
    request: Request,
    config: Config,
    *,
    over: Callable[[], None],
    target_is_for_reading: bool = False,
) -> Recording:
    """Return the recording of ``source``: read it, or run the source.

    Args:
        source: what the user named.
        request: the command line.
        config: the settings, which the command line overrides.
        over: called when the program has ended, before the recording is explained.
        target_is_for_reading: whether ``--target`` applies to a recording that is only read.

    Raises:
        CompilescopeError: an option does not fit the source, or the source can be neither read nor run.
    """
    if isinstance(source, RecordingSource):
        _refuse(
            request,
            "a saved recording is not run again",
            also=("count_runs",) if target_is_for_reading else ("target", "count_runs"),
        )
        return load(source.path)
    # A process that only reads recordings must not import torch.
    from compilescope.workloads import session  # noqa: PLC0415
    from compilescope.workloads.progress import show  # noqa: PLC0415

    model = model_options(request)
    settings = session.Settings(
        patterns=request.target or config.targets,
        values=_values(request.sweep),
        order=_order(request, config),
        parity=config.parity if request.parity is None else request.parity,
        arguments=_arguments(request),
        count_runs=config.count_runs if request.count_runs is None else request.count_runs,
        warn=lambda text: None if _reads_text_beside(request, config) else tell(f"warning: {text}"),
        track=iter if request.quiet else show,
        model=model,
        order_given=request.order is not None,
        write_workload=request.write_workload,
        over=over,
    )
    if isinstance(source, ScriptSource) and model is not None:
        source = WorkloadSource(source.path)
    if isinstance(source, ScriptSource | ModuleSource):
        _refuse(request, "a script has no axes and no factory", keep=("script_args",))
        with _program_contained():
            return session.record_script(source, request.script_args, settings)
    if request.script_args:
        msg = f"{request.source} declares workloads, which take no arguments; only a script does."
        raise UsageError(msg)
    with _program_contained():
        return session.record_workloads(source, settings)


def _reads_text_beside(request: Request, config: Config) -> bool:
    """Whether the text report, which repeats the warnings, goes to the same place as they do."""
    bare = "text" in (request.formats or config.format) and request.output in (None, "-")
    return (bare or "text:-" in request.formats) and is_one_place()


@contextlib.contextmanager
def _program_contained() -> Iterator[None]:
    """Let the program end in any way, then restore our streams, folder and signals."""
    with folder_kept(), streams_kept(), hard_exits_seen():
        yield


def _order(request: Request, config: Config) -> Order:
    order = parse_order(request.order or config.order, seed=config.seed if request.seed is None else request.seed)
    if request.seed is not None and order.name != RANDOM:
        msg = f"--seed is for --order random; the order is {order}."
        raise UsageError(msg)
    return order


def _refuse(request: Request, why: str, *, also: tuple[str, ...] = (), keep: tuple[str, ...] = ()) -> None:
    """Refuse options that would do nothing: a silently ignored option misleads the user.

    Raises:
        UsageError: one of them was given.
    """
    for name in ("sweep", "order", "seed", "parity", "device", "set_", *OF_MODELS, "script_args", *also):
        value = getattr(request, name)
        if name not in keep and value not in (None, ()):
            shown = "Arguments after --" if name == "script_args" else f"--{name.rstrip('_').replace('_', '-')}"
            msg = f"{shown} cannot be used with {request.source}: {why}."
            raise UsageError(msg)


def _values(sweep: tuple[str, ...]) -> dict[str, list[str]]:
    """Read ``AXIS=V1,V2``.

    Raises:
        UsageError: an item has no equals sign, no value, or repeats an axis.
    """
    read = {axis: [part.strip() for part in text.split(",")] for axis, text in read_pairs("--sweep", sweep).items()}
    for axis, values in read.items():
        if not all(values):
            msg = f"--sweep '{axis}={','.join(values)}' has an empty value."
            raise UsageError(msg)
    return read


def _arguments(request: Request) -> dict[str, str]:
    """Return the arguments of the factory: ``--set`` and ``--device``."""
    given = request.set_ if request.device is None else (*request.set_, f"device={request.device}")
    return read_pairs("--set", given)


def read_pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Read what an option gives as ``NAME=VALUE``.

    Raises:
        UsageError: an item has no name, no equals sign, no value, or repeats a name.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or not equals or not value:
            msg = f"{option} {text!r} is not of the form NAME=VALUE."
            raise UsageError(msg)
        if name in found:
            msg = f"{option} gives {name!r} twice."
            raise UsageError(msg)
        found[name] = value
    return found


def say(recording: Recording, request: Request, routes: tuple[Route, ...]) -> None:
    """Print on stderr what nobody may miss, whatever happens to stdout: what is wrong, and the counts.

    If the text report is on the same screen or in the same log, it says so already.
    """
    run = recording.meta.run
    is_read = any(route.path is None and route.format == "text" for route in routes) and is_one_place()
    if run is not None and run.traceback is not None and run.status == "raised" and not (is_read and request.verbose):
        tell(run.traceback)
    if is_read:
        return
    for alarm in alarms(recording):
        if alarm.wrong:
            tell(f"warning: {alarm.text}")
    if not request.quiet:
        tell(f"compilescope: {verdict(recording)}")
