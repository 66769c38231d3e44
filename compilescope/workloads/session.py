"""Runs a source under observation, from import to the finished recording."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from compilescope.analysis.axes import summarise, with_axes
from compilescope.errors import UsageError, WorkloadError
from compilescope.files import write_atomically
from compilescope.observing import observe
from compilescope.record import Run
from compilescope.storage import encodable
from compilescope.workloads.coincidence import coincidences
from compilescope.workloads.declare import Axis, Workload
from compilescope.workloads.ending import ended, ending_seen
from compilescope.workloads.exits import leave_as_child
from compilescope.workloads.faults import one_line, user_traceback
from compilescope.workloads.folder import program_may_wander
from compilescope.workloads.load import Found, importable, is_model, load
from compilescope.workloads.locate import ModuleSource
from compilescope.workloads.model.declare_model import ModelOptions, declare
from compilescope.workloads.model.suggest import suggested
from compilescope.workloads.model.target import ModelTarget
from compilescope.workloads.model.write import workload_text
from compilescope.workloads.parity import EagerComparison
from compilescope.workloads.points import Order, override, parse_order, read_value
from compilescope.workloads.reach import static_widths
from compilescope.workloads.revision import revision_of
from compilescope.workloads.script import run_module, run_script
from compilescope.workloads.signals import interruption
from compilescope.workloads.sweep import Plan, Walk, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from compilescope.observing import Scope
    from compilescope.record import Recording
    from compilescope.workloads.locate import ScriptSource, WorkloadSource
    from compilescope.workloads.points import Point


_DEVICE: Final = "device"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How to run.

    Attributes:
        patterns: targets in addition to those of the workload.
        values: axis name to the values that override its own, as text.
        order: of the sweep.
        parity: whether to compare every point with eager.
        arguments: for parameters of the factory, including ``device``, as text.
        count_runs: whether calls are compared with graph runs, to detect eager fallbacks.
        warn: shows a doubt before the run.
        track: shows progress while it yields points.
        over: called when the program has ended, before the recording is explained.
        model: how to build, call and compile a source that is a model; None without model options.
        order_given: whether the user chose the order.
        write_workload: where to write a model and its options as a workload.
    """

    patterns: tuple[str, ...] = ()
    values: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    order: Order = dataclasses.field(default_factory=Order)
    parity: bool = False
    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    count_runs: bool = True
    warn: Callable[[str], None] = lambda _: None
    track: Callable[[Sequence[Point]], Iterator[Point]] = iter
    model: ModelOptions | None = None
    order_given: bool = False
    write_workload: Path | None = None
    over: Callable[[], None] = lambda: None


def record_script(source: ScriptSource | ModuleSource, arguments: Sequence[str], settings: Settings) -> Recording:
    """Run a script or a module as ``__main__`` and return the recording, however it ended.

    What the script prints to ``sys.stdout`` goes to stderr: stdout is for the report.
    """
    home, process = Path.cwd(), os.getpid()
    with observe(settings.patterns, count_runs=settings.count_runs) as scope, contextlib.redirect_stdout(sys.stderr):
        with program_may_wander():
            if isinstance(source, ModuleSource):
                run = run_module(source.name, arguments)
            else:
                run = run_script(source.path, arguments)
            leave_as_child(process, run)
            settings.over()
        recording = scope.recording
    if isinstance(source, ModuleSource):
        return _ended(recording, run, revision_of(home))
    recording = _ended(recording, run, revision_of(source.path))
    return recording if recording.compiled else _with_next(recording, suggested(source.path))


def _with_next(recording: Recording, commands: tuple[str, ...]) -> Recording:
    return msgspec.structs.replace(recording, meta=msgspec.structs.replace(recording.meta, next=commands))


def record_workloads(source: WorkloadSource, settings: Settings) -> Recording:
    """Import the workloads of ``source``, sweep each of them, and return the recording.

    Raises:
        WorkloadError: the source cannot be imported, or has nothing to run.
        UsageError: an axis is unknown.
    """
    home = Path.cwd()
    with importable(source), contextlib.redirect_stdout(sys.stderr):
        found = load(source, as_model=settings.model is not None)
        if isinstance(found, Found):
            recording, run, settings = _record_found(found, settings)
        else:
            _refuse_model_options(source, settings)
            recording, run = _record(_with_values(found, settings.values), settings)
    if settings.arguments.get("device") == "meta":
        # The recorder names the machine's device; a run on meta uses none.
        recording = msgspec.structs.replace(recording, meta=msgspec.structs.replace(recording.meta, device="meta"))
    return _ended(recording, run, revision_of(home if isinstance(source.module, str) else source.module))


def _record(workloads: Sequence[Workload], settings: Settings) -> tuple[Recording, Run]:
    process = os.getpid()
    with observe(_targets(workloads, settings.patterns), count_runs=settings.count_runs) as scope:
        with program_may_wander(), ending_seen() as ending:
            run = _sweep_each(workloads, scope, settings)
            last = ended(ending.come).run
            run = last if run.status == "ok" and last.status != "ok" else run
            leave_as_child(process, run)
            settings.over()
        return scope.recording, run


def _record_found(found: Found, settings: Settings) -> tuple[Recording, Run, Settings]:
    """Sweep a model, or call a function; a function that compiles nothing and returns a model is its builder."""
    if not is_model(found.value) and settings.model is None:
        answers: list[object] = []
        # If it returns a model, the program may not be over.
        called = dataclasses.replace(settings, over=lambda: None if answers else settings.over())
        recording, run = _record(_with_values([_plain(found, answers)], settings.values), called)
        if not answers or recording.compilations or settings.values:
            return recording, run, settings
    workload, settings = _of_model(found, settings)
    recording, run = _record([workload], settings)
    return recording, run, settings


def _plain(found: Found, answers: list[object]) -> Workload:
    """Return a function as a workload: nothing to build, and axes only from --sweep. Its results go to ``answers``."""
    function = cast("Callable[..., object]", found.value)

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        answer = function(*args, **kwargs)
        answers[:] = [answer] if is_model(answer) else []
        return answer

    return Workload(name=found.name, factory=lambda: call, plain=True)


def _of_model(found: Found, settings: Settings) -> tuple[Workload, Settings]:
    """Return the workload for a model, and how to sweep it."""
    target = ModelTarget(found.name, found.source, cast("Any", found.value), found.home)
    given = {name: text for name, text in settings.arguments.items() if name != _DEVICE}
    options = settings.model or ModelOptions()
    construction = dataclasses.replace(options.construction, arguments=given, device=settings.arguments.get(_DEVICE))
    declared = declare(target, dataclasses.replace(options, construction=construction), settings.values, observe)
    if settings.write_workload is not None:
        text = workload_text(
            settings.write_workload, target.source, declared, dataclasses.replace(options, construction=construction)
        )
        write_atomically(settings.write_workload, text.encode())
    arguments = {name: text for name, text in settings.arguments.items() if name == _DEVICE}
    return declared.workload, dataclasses.replace(settings, arguments=arguments)


def _refuse_model_options(source: WorkloadSource, settings: Settings) -> None:
    if settings.model is not None or settings.write_workload is not None:
        options = "--input, --compile and the other options of models"
        msg = (
            f"{source.module} declares workloads, which build and compile their models themselves: leave out {options}."
        )
        raise UsageError(msg)


def _ended(recording: Recording, run: Run, revision: str | None) -> Recording:
    meta = msgspec.structs.replace(recording.meta, run=run, revision=revision)
    return encodable(with_axes(msgspec.structs.replace(recording, meta=meta)))


def _targets(workloads: Sequence[Workload], patterns: Sequence[str]) -> list[object]:
    """Return every target once; targets need not be hashable."""
    wanted = [*(target for one in workloads for target in one.targets), *patterns]
    return list({target if isinstance(target, str) else id(target): target for target in wanted}.values())


def _with_values(workloads: Sequence[Workload], values: Mapping[str, Sequence[str]]) -> list[Workload]:
    """Give the axes the values of the command line.

    A plain function gets all its axes from there. Of several workloads, each takes the values of the axes that it has;
    an axis that none of them has is an error.
    """
    declared = {axis.name for one in workloads for axis in one.axes}
    changed: list[Workload] = []
    for one in workloads:
        if one.plain:
            axes = [Axis(name, [read_value(text) for text in texts]) for name, texts in values.items()]
        else:
            own = {axis.name for axis in one.axes}
            chosen = {name: texts for name, texts in values.items() if name in own or name not in declared}
            axes = override(one.axes, chosen, where=f"Workload {one.name!r}")
        changed.append(dataclasses.replace(one, axes=tuple(axes)))
    return changed


def _sweep_each(workloads: Sequence[Workload], scope: Scope, settings: Settings) -> Run:
    """Sweep one after the other. The first that crashes or is interrupted is the last, and its end is the run's.

    Raises:
        WorkloadError: the first cannot run at all. Once there are sweeps, they are kept instead.
    """
    for one in workloads:
        try:
            result = _sweep(one, scope, settings)
        except KeyboardInterrupt as error:
            return interruption(error)
        except WorkloadError as error:
            if not scope.recording.sweeps:
                raise
            return Run(status="raised", error=one_line(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a factory is the user's code and may raise anything)
            said = f"{one_line(error)} in the factory of workload {one.name!r}"
            return Run(status="raised", error=said, traceback=user_traceback(error))
        if result.interrupted_by is not None:
            return interruption(result.interrupted_by)
        if result.all_failed:
            said = f"{result.sweep.points[0].error} at every point of workload {one.name!r}"
            return Run(status="raised", error=said, traceback=result.traceback)
    return Run(status="ok")


def _sweep(workload: Workload, scope: Scope, settings: Settings) -> Walk:
    defaults = workload.defaults
    call = workload.build(
        {name: read_value(text, like=defaults.get(name)) for name, text in settings.arguments.items()}
    )
    own = workload.order is not None and not settings.order_given
    order = parse_order(workload.order or "", seed=settings.order.seed) if own else settings.order
    plan = Plan(workload.name, workload.axes, order)
    doubts = (*workload.remarks, *coincidences(plan.points(), static_widths(call)))
    for doubt in doubts:
        settings.warn(f"{workload.name}: {doubt}")
    earlier = len(scope.recording.compilations)
    result = walk(
        Plan(plan.workload, plan.axes, plan.order, doubts),
        call,
        scope,
        comparison=EagerComparison() if settings.parity else None,
        track=settings.track,
    )
    # Computed here: in the whole recording, two workloads with the same axes cannot be distinguished.
    summary = summarise(result.sweep, scope.recording.compilations[earlier:])
    swept = msgspec.structs.replace(result.sweep, summary=summary, setup=workload.setup)
    scope.add_sweep(swept)
    return dataclasses.replace(result, sweep=swept)
