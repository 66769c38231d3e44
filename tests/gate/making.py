"""A sound recording of a model with two kinds of block, and the means to break one thing in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge
from compilescope.record import (
    CodeObject,
    Compilation,
    CompileError,
    EntryMiss,
    Failure,
    Fallback,
    GraphBreak,
    Location,
    Meta,
    Parity,
    Recompile,
    Recording,
    Run,
    Sweep,
    SweepPoint,
    Target,
)

if TYPE_CHECKING:
    from compilescope.record import Finding

BLOCK = CodeObject(id="src/pkg/model.py:Block.forward", qualname="Block.forward", file="src/pkg/model.py", line=40)
RESUMED = CodeObject(
    id="src/pkg/model.py:torch_dynamo_resume_in_forward_at_44",
    qualname="torch_dynamo_resume_in_forward_at_44",
    file="src/pkg/model.py",
    line=44,
    resumes=BLOCK.id,
)
LIBRARY = CodeObject(id="diffusers/attn.py:attend", qualname="attend", file="diffusers/attn.py", line=7)
LINE = Location(file="src/pkg/model.py", line=42, text="x = self.norm1(x)")
OK = Run(status="ok")


def meta(**changes: object) -> Meta:
    base = Meta(
        compilescope="0.1.0",
        torch="2.13.0+cpu",
        python="3.11.7",
        platform="Linux",
        device="cpu",
        config={"recompile_limit": 8},
        counts_runs=True,
        run=OK,
    )
    return replace(base, **changes)


def cause(kind: str | None, source: str = "x.size()[1]", **changes: object) -> Failure:
    base = Failure(
        source=source, guard="g", expected="16", actual="24", where=LINE, guard_type="TENSOR_MATCH", kind=kind
    )
    return replace(base, **changes)


def compiled(id: str, code: CodeObject = BLOCK, *causes: Failure, **changes: object) -> Compilation:  # noqa: A002
    """A compilation; with causes, a recompile."""
    base = Compilation(
        id=id, code=code.id, outcome="compiled", seconds=0.5, point={"text_len": 4}, guards=40, operators=6
    )
    if causes:
        older = (EntryMiss(id="0/0", failing=causes),)
        driven = all(one.kind in ("size", "zero_one") for one in causes)
        why = Recompile(entries=older, closest="0/0", causes=causes, shape_driven=driven, axes=("text_len",))
        base = replace(base, recompile=why)
    return replace(base, **changes)


NORM = cause("module_type", "self.norm1", expected="PlainNorm", actual="ModulatedNorm")


def target(selector: str = "Block.forward", **changes: object) -> Target:
    return replace(Target(selector=selector, status="compiled", compiles=2, codes=(BLOCK.id,)), **changes)


def sweep(*points: SweepPoint, **changes: object) -> Sweep:
    visited = points or (point(4), point(77))
    axes = {"text_len": tuple(one.values["text_len"] for one in visited)}
    base = Sweep(workload="model", order="grid", axes=axes, points=visited)
    return replace(base, **changes)


def point(text_len: int, **changes: object) -> SweepPoint:
    same = Parity(max_abs=0.0, relative_l2=0.0, psnr=None, bitwise=True)
    return replace(SweepPoint(values={"text_len": text_len}, status="ok", seconds=0.1, parity=same), **changes)


def sound(**changes: Any) -> Recording:
    """Two compilations of one block, the second for another class of norm, over a sweep that ran whole."""
    base = Recording(
        meta=meta(),
        code_objects=(BLOCK,),
        compilations=(compiled("0/0"), compiled("0/1", BLOCK, NORM)),
        targets=(target(),),
        sweeps=(sweep(),),
    )
    return replace(base, **changes)


def broken_at(file: str = "src/pkg/model.py", line: int = 44, **changes: object) -> GraphBreak:
    base = GraphBreak(
        code=BLOCK.id,
        file=file,
        line=line,
        kind="data_dependent_branch",
        registry_id="GB0170",
        reason="Data-dependent branching",
        events=3,
        skips_frame=False,
        text="if mask.any():",
        function="forward",
    )
    return replace(base, **changes)


def eager(kind: str = "skipped_frame", code: CodeObject = BLOCK, **changes: object) -> Fallback:
    return replace(Fallback(code=code.id, kind=kind, calls=3, detail="why"), **changes)  # type: ignore[arg-type]


def failed(kind: str = "backend_error", code: CodeObject = BLOCK, **changes: object) -> Compilation:
    error = CompileError(kind=kind, type="BackendCompilerFailed", message="backend said no", where=LINE)
    return replace(Compilation(id="0/9", code=code.id, outcome="failed", seconds=0.1, error=error), **changes)


STRICT = Budget(
    max_compiles=2,
    max_recompiles=0,
    max_recompiles_by_kind={"module_type": 1},
    no_shape_recompile=True,
    max_graph_breaks=0,
    max_own_graph_breaks=0,
    own=("src/pkg",),
    min_operators=6,
    max_guards=40,
    max_compile_seconds=60.0,
    max_relative_l2=0.01,
)
"""Every limit at once, each as tight as the sound recording lets it be."""


def rules(recording: Recording, budget: Budget = STRICT) -> list[str]:
    return [finding.rule for finding in judge(recording, budget)]


def only(recording: Recording, budget: Budget) -> Finding:
    """Return the single finding."""
    (finding,) = judge(recording, budget)
    return finding
