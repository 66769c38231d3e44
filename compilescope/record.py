"""The recording: what Dynamo did in one run, as plain immutable data.

A recording is the only data that passes between the wings of compilescope. It holds only text and
numbers: no tensor, no user object, no memory address, and nothing except times that differs between
two runs of the same program. This file imports no torch.

A field that was not recorded is ``None``, never ``0`` or an empty list.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FORMAT: Final = 1
"""Version of the JSON format. History: 1, the first."""

Outcome = Literal["compiled", "skipped", "limit", "failed", "empty", "refused"]
FallbackKind = Literal[
    "recompile_limit", "skipped_frame", "user_exception", "backend_error", "unsupported", "stance", "dispatch_mode"
]
Use = Literal["branch", "constant", "arithmetic"]
"""What code does with a Python value: branches on it; needs it as a constant (an index, a range); calculates."""
Mark = Literal["dynamic", "weakly dynamic", "unbacked", "static"]
TargetStatus = Literal["compiled", "inlined", "cached", "skipped", "never_reached"]
Scalar = bool | int | float | str | None


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A line of source code.

    Attributes:
        file, line: ``file`` is relative to site-packages or the working directory, or absolute outside both.
        text, function: the text of the line, and the function that contains it; None if unknown.
    """

    file: str
    line: int
    text: str | None = None
    function: str | None = None


class CodeObject(msgspec.Struct, frozen=True, kw_only=True):
    """One Python function body.

    Attributes:
        id: ``<file>:<qualname>``, with ``@<line>`` appended where two bodies share both.
        qualname, file, line: its qualified name, and where it begins; ``file`` as in :class:`Location`.
        resumes: id of the code object that this resume function continues, or None.
        owner: what a shared wrapper frame ran for: the class of a module, the name of a function, or None.
        resumed_after: for a resume function, where the function that it resumes stopped. The text is the code
            there (``opt.step()``), or for a branch the side that was taken; None for any other function.
        broken_at: for a resume function, the line of the graph break, which may be in a callee of ``resumed_after``.
    """

    id: str
    qualname: str
    file: str
    line: int
    resumes: str | None = None
    owner: str | None = None
    resumed_after: Location | None = None
    broken_at: Location | None = None


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A number that a guard reads and that changed since the entry was compiled.

    Attributes:
        source, was, now: what holds it, and its old and new value; ``was`` is None if unknown.
    """

    source: str
    was: bool | int | float | None
    now: bool | int | float | None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One guard of an older entry that is false, or raises, for the new frame.

    The upper half is observed at capture time; ``kind``, ``advice`` and ``consequence_of`` are
    determined by :mod:`compilescope.analysis.causes` (``consequence_of`` also by capture, if an
    ancestor's guard failed).

    Attributes:
        source: the guarded value, as the user would write it: ``hidden_states.size()[1]``.
        guard: the guard's own expression, without memory addresses.
        expected: what the entry was compiled for.
        actual: what the new frame has.
        where: the user's line that made Dynamo put the guard there.
        guard_type: Dynamo's name of the guard class, such as ``TENSOR_MATCH``.
        kind, advice: the name of the cause, and what helps; None until analysed; ``advice`` also if nothing helps.
        part: which part of a compound guard: a tensor property, a global-state field.
        holder: what holds it: local, closure, global, module, object, dict, sequence, tensor or ambient.
        expected_type, actual_type: type names of both sides, if known.
        raised: text of the exception if the guard raised instead of returning a result.
        symbols: the sources in a shape relation.
        moved: for a shape or layout guard, the sizes that it reads and that changed since the entry was compiled.
        off_by: by how much the two sides of an equation between sizes differ.
        consequence_of: source of the failing guard that this one only follows from.
        torch_where: torch's own line, if the guard was made inside torch on behalf of ``where``.
        places: how many root failures this one change stands for; more than 1 only in a recompile's causes.
        also: the other sources, if the change was seen in more than one place.
        pinned_by: the line that needed the value as a Python constant while the entry was compiled, so that no
            setting makes it dynamic; None if no such line is known.
        pinned_with: the equal sizes that shared a symbol with it then: the line may have needed one of them.
        of_module: whether the value is reached through a module, at any depth.
        use: what the code does with a Python value: :data:`Use`; None if not determined or mixed.
        registered: ``parameter`` or ``buffer`` if the tensor is one of a module's; else None.
        marked: how the caller marked the dimension (:data:`Mark`); None if it did not.
        accepted_elsewhere: whether another entry guards the same value and accepts it: going back to that
            value is not a reason to compile.
    """

    source: str
    guard: str
    expected: str
    actual: str
    where: Location | None = None
    guard_type: str
    part: str | None = None
    holder: str | None = None
    expected_type: str | None = None
    actual_type: str | None = None
    raised: str | None = None
    symbols: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()
    off_by: int | None = None
    consequence_of: str | None = None
    kind: str | None = None
    advice: str | None = None
    torch_where: Location | None = None
    places: int = 1
    also: tuple[str, ...] = ()
    pinned_by: Location | None = None
    pinned_with: tuple[str, ...] = ()
    of_module: bool = False
    use: Use | None = None
    registered: Literal["parameter", "buffer"] | None = None
    marked: Mark | None = None
    accepted_elsewhere: bool = False


class EntryMiss(msgspec.Struct, frozen=True, kw_only=True):
    """An older cache entry and every one of its guards that the new frame failed.

    Attributes:
        id: Dynamo's, such as ``0/1``.
        failing: every guard that failed, including those that only follow from another.
        recency: 0 for the entry that was used or made last, 1 for the one before it; None if unknown.
        confirmed: whether torch's own evaluator agreed: each reported guard fails by itself, and the entry without the
            reported guards accepts the frame. None if the evaluator could not be asked.
        unconfirmed: why not, if ``confirmed`` is not True.
    """

    id: str
    failing: tuple[Failure, ...]
    recency: int | None = None
    confirmed: bool | None = None
    unconfirmed: str | None = None


class Recompile(msgspec.Struct, frozen=True, kw_only=True):
    """Why a code object was compiled again.

    Attributes:
        entries: every older entry, oldest first, with all its failing guards.
        closest: id of the entry that came closest to matching; None if no guard could be examined.
        alternatives: ids of entries that came as close.
        shape_driven: whether some older entry fails on shape kinds only; None until analysed.
        causes: what changed since the closest entry: one failure for each change, with the number of places where it
            was seen; empty until analysed.
        axes: the sweep's axes that changed since the closest entry was compiled; None outside a sweep.
    """

    entries: tuple[EntryMiss, ...]
    closest: str | None = None
    alternatives: tuple[str, ...] = ()
    shape_driven: bool | None = None
    axes: tuple[str, ...] | None = None
    causes: tuple[Failure, ...] = ()


class CompileError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a compilation did not end in a cache entry.

    Attributes:
        kind: ``constraint_violation``, ``backend_error``, ``user_exception``, ``fake_tensor_error``,
            ``no_fake_kernel``, ``numpy_error``, ``unsupported``, ``recompile_limit``, ``recompile_forbidden`` (by
            ``error_on_recompile`` or a stance) or ``internal``.
        type: name of the exception class.
        message: its first lines, without addresses.
        source: the guarded value that it names, if any.
        where: the innermost line outside torch.
        torch_where: torch's own line, if the error arose inside torch on behalf of ``where``.
        advice: what helps; None if nothing is known to help.
    """

    kind: str
    type: str
    message: str
    source: str | None = None
    where: Location | None = None
    torch_where: Location | None = None
    advice: str | None = None


class Compilation(msgspec.Struct, frozen=True, kw_only=True):
    """One call of Dynamo's ``_compile`` on a frame, or one that Dynamo refused to make (outcome ``refused``).

    Attributes:
        id: Dynamo's compile id (``0/1``; ``#n`` is appended where a reset made Dynamo reuse one).
        code, outcome: id of the code object, and how the attempt ended.
        seconds: wall time inside ``_compile``, without this tool's own guard evaluation.
        point: the sweep point that was running, or None.
        guards: leaf guards of the new entry; None if there is no new entry.
        operators: calls that the graph captured; None if there is no graph.
        backend: name of the backend.
        dynamic: the value of ``torch.compile(dynamic=...)``: True, False, or None for automatic.
        owner: what a shared wrapper frame ran for: the class of a module, the name of a function, or None.
        limit: the recompile limit in force, which ``torch.compile(recompile_limit=...)`` sets for one callable; if
            the limit on all compilations of a code object refused this one, that limit.
        error: None unless the outcome is ``failed``, ``limit`` or ``refused``, or a skip has a reason.
        recompile: None for a first compilation. Also given if a limit or a stance refused a recompile.
        raised: whether the caller saw the error, so that no eager run followed.
    """

    id: str
    code: str
    outcome: Outcome
    seconds: float
    point: dict[str, Scalar] | None = None
    guards: int | None = None
    operators: int | None = None
    backend: str | None = None
    dynamic: bool | None = None
    owner: str | None = None
    limit: int | None = None
    error: CompileError | None = None
    recompile: Recompile | None = None
    raised: bool = False


class GraphBreak(msgspec.Struct, frozen=True, kw_only=True):
    """One user site where tracing stopped. ``events`` counts how often.

    Attributes:
        code: id of the code object whose tracing stopped.
        file, line, text, function: the innermost line outside torch.
        kind, registry_id, reason: its kind, its id in torch's registry (``GB0170``), and Dynamo's own words.
        events, skips_frame: how often tracing stopped there, and whether the whole frame ran eagerly because of it.
        torch_where: torch's own line, if tracing stopped inside torch on behalf of that line.
        advice: what helps, if known.
    """

    code: str
    file: str
    line: int
    kind: str
    registry_id: str | None
    reason: str
    events: int
    skips_frame: bool
    text: str | None = None
    function: str | None = None
    torch_where: Location | None = None
    advice: str | None = None


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """A frame, or calls of a compiled callable, that ran outside any compiled graph.

    Attributes:
        code, kind, detail: id of the code object, why it ran eagerly, and the reason in words.
        calls: how many calls; None if runs were not counted.
        points: the sweep points at which calls ran eagerly, in order; None if runs were not counted.
    """

    code: str
    kind: FallbackKind
    calls: int | None
    detail: str
    points: tuple[dict[str, Scalar], ...] | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one target: something that the user wants to compile.

    Attributes:
        selector, status: the target as a pattern or qualified name, and what happened to it.
        codes: ids of the code objects that the selector matched, including resume functions.
        compiles: compilations with outcome ``compiled`` of the code objects that the selector matched.
        resumed: the same of their resume functions.
        inlined_into: the code object that a target with status ``inlined`` was traced into.
        varied: False if all its calls had arguments of the same sizes; None if unknown.
    """

    selector: str
    status: TargetStatus
    compiles: int
    resumed: int = 0
    codes: tuple[str, ...] = ()
    inlined_into: str | None = None
    varied: bool | None = None


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """Difference between the compiled and the eager result at one point.

    Attributes:
        max_abs: largest absolute difference.
        relative_l2: norm of the difference over the norm of the eager result.
        psnr: dB, with the eager result's largest magnitude as peak; None if the results are equal.
        bitwise: whether the storage bytes are equal, including signed zeros.
    """

    max_abs: float
    relative_l2: float
    psnr: float | None
    bitwise: bool


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One assignment of all axes, and how its run ended.

    Attributes:
        values, status, seconds, error: the value of each axis, how the call ended, how long it took, what it raised.
        parity: the difference from eager; None if not compared.
    """

    values: dict[str, Scalar]
    status: Literal["ok", "error"]
    seconds: float
    error: str | None = None
    parity: Parity | None = None


class AxisSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Whether inputs may vary along an axis.

    Attributes:
        free: no compilation after the first value is attributed to this axis.
        free_except: the only values at which it compiles, if these are 0 and 1.
        compiles_at: the values at which a compilation is attributed to it.
        because: kinds of the causes at these values.
    """

    free: bool
    compiles_at: tuple[Scalar, ...]
    because: tuple[str, ...]
    free_except: tuple[Scalar, ...] = ()


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """An ordered run over points.

    Attributes:
        workload, order, axes: what was swept, in which order, over which values.
        points, completed: the points that ran, in order; ``completed`` is False if some did not run.
        summary: what is known about each axis; an axis about which nothing is known is left out.
        warnings: doubts about the sweep.
        setup: what compilescope itself compiled and how, in one line; None if the program compiled it.
    """

    workload: str
    order: str
    axes: dict[str, tuple[Scalar, ...]]
    points: tuple[SweepPoint, ...]
    summary: dict[str, AxisSummary] | None = None
    warnings: tuple[str, ...] = ()
    completed: bool = True
    setup: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A violation of a rule or a budget.

    Attributes:
        rule: its stable code, such as ``CS203``.
        code: id of the code object that it is about, or None.
        message: one sentence or phrase.
        file, line: where; None if it is not about one place.
        key: what identifies it in a baseline, together with the rule: no line number, absolute path, id or time.
        amount: how many of the same it stands for; a baseline accepts up to that many.
    """

    rule: str
    code: str | None
    message: str
    file: str | None = None
    line: int | None = None
    key: str | None = None
    amount: int = 1


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """How ``check`` judged the findings; those that fail the check are the recording's own ``findings``.

    Attributes:
        baseline: the file that accepts findings, as the user named it; None if there was none.
        accepted: findings that it accepts.
        fixed: its entries that were found less often than it accepts, a phrase each.
        earlier_torch: the version of torch whose findings it holds, if it holds none for this run's version.
        unchanged: those of the recording's findings that it accepts under ``earlier_torch``.
        error: why the baseline could not be written, if that was requested and failed.
    """

    baseline: str | None = None
    accepted: tuple[Finding, ...] = ()
    fixed: tuple[str, ...] = ()
    earlier_torch: str | None = None
    unchanged: tuple[Finding, ...] = ()
    error: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """How the workload itself ended.

    Attributes:
        status: ``ok``; ``raised``; ``exited`` (``sys.exit``); ``interrupted`` (Ctrl-C, SIGTERM).
        exit_code: of ``sys.exit``, or a shell's exit code for SIGTERM; else None.
        error: the exception, one line.
        traceback: its text, for people to read.
    """

    status: Literal["ok", "raised", "exited", "interrupted"]
    exit_code: int | None = None
    error: str | None = None
    traceback: str | None = None


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """Where a recording comes from.

    Attributes:
        format, compilescope: version of the JSON format, and of compilescope.
        torch, python, platform, device: the versions, and where the program ran.
        rank, argv, revision: ``RANK`` of a distributed process, the command line, and git's commit of the program.
        config: Dynamo's settings when the first compilation began.
        counts_runs: whether calls and graph runs were counted; if not, eager calls were not checked.
        run: how the workload ended; None if no command ran it.
        next: commands that report on the models of a program that compiled nothing.
        merged: how many recordings it was merged from, each of which began with an empty cache.
    """

    format: int = FORMAT
    compilescope: str
    torch: str
    python: str
    platform: str
    device: str
    rank: int | None = None
    argv: tuple[str, ...] = ()
    revision: str | None = None
    config: dict[str, Scalar] = {}
    counts_runs: bool = False
    run: Run | None = None
    next: tuple[str, ...] = ()
    merged: int = 1


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Build it with :func:`compilescope.observe`; read and write it with :mod:`compilescope.storage`.

    Attributes:
        meta: where it comes from.
        code_objects, compilations: the functions that were compiled or tried, and every attempt, in order.
        graph_breaks, fallbacks: where tracing stopped, and what ran outside any graph.
        targets, sweeps: what happened to each target and in each sweep.
        findings, judgement: the violations, and how ``check`` judged them; None if no check ran.
    """

    meta: Meta
    code_objects: tuple[CodeObject, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    targets: tuple[Target, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    findings: tuple[Finding, ...] = ()
    judgement: Judgement | None = None

    def code(self, id: str) -> CodeObject:  # noqa: A002 (the JSON contract calls it id)
        """Return the code object of that id.

        Raises:
            KeyError: there is none.
        """
        return {code.id: code for code in self.code_objects}[id]

    @property
    def compiled(self) -> tuple[Compilation, ...]:
        """The compilations that produced a cache entry."""
        return tuple(c for c in self.compilations if c.outcome == "compiled")

    @property
    def recompiles(self) -> tuple[Compilation, ...]:
        """The compilations that produced a cache entry when there was an older one."""
        return tuple(c for c in self.compiled if c.recompile is not None)
