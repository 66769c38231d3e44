"""Recordings built by hand: what real runs hold (counts after FLUX under diffusers 0.42.1), and what could go wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from compilescope.record import (
    AxisSummary,
    CodeObject,
    Compilation,
    CompileError,
    EntryMiss,
    Failure,
    Fallback,
    Finding,
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

FLUX = "diffusers/models/transformers/transformer_flux.py"
DOUBLE = CodeObject(
    id=f"{FLUX}:FluxTransformerBlock.forward", qualname="FluxTransformerBlock.forward", file=FLUX, line=410
)
SINGLE = CodeObject(
    id=f"{FLUX}:FluxSingleTransformerBlock.forward", qualname="FluxSingleTransformerBlock.forward", file=FLUX, line=366
)
LINE = Location(file=FLUX, line=441, text="norm_hidden_states = self.norm1(hidden_states, emb=temb)")


def meta(**changes: object) -> Meta:
    base = Meta(
        compilescope="0.1.0",
        torch="2.13.0+cpu",
        python="3.11.7",
        platform="Linux",
        device="cpu",
        argv=("examples/flux.py",),
        config={"recompile_limit": 8},
        counts_runs=True,
        run=Run(status="ok"),
    )
    return msgspec.structs.replace(base, **changes)


def failure(kind: str | None, source: str, expected: str = "16", actual: str = "24", **changes: object) -> Failure:
    base = Failure(
        source=source,
        guard=f"{source} == {expected}",
        expected=expected,
        actual=actual,
        where=LINE,
        guard_type="TENSOR_MATCH",
        kind=kind,
        advice=f"advice for {kind}",
    )
    return msgspec.structs.replace(base, **changes)


def recompiled(id: str, code: CodeObject, *causes: Failure, **changes: object) -> Compilation:  # noqa: A002
    """One recompile against one older entry that fails on ``causes``."""
    closest = f"{id.split('/', maxsplit=1)[0]}/0"
    facts: dict[str, Any] = {
        "entries": (EntryMiss(id=closest, failing=causes),),
        "closest": closest,
        "causes": causes,
        "shape_driven": all(cause.kind in ("size", "zero_one") for cause in causes),
        "axes": ("text_len",),
    }
    return compiled(id, code, recompile=Recompile(**(facts | changes)))


def compiled(id: str, code: CodeObject, **changes: object) -> Compilation:  # noqa: A002
    facts: dict[str, Any] = {"outcome": "compiled", "seconds": 0.7, "guards": 404, "operators": 60}
    return Compilation(id=id, code=code.id, **(facts | changes))


@pytest.fixture
def clean() -> Recording:
    return Recording(
        meta=meta(),
        code_objects=(DOUBLE, SINGLE),
        compilations=(compiled("0/0", DOUBLE), compiled("1/0", SINGLE, guards=238)),
        targets=(Target(selector="FluxTransformerBlock.forward", status="compiled", compiles=1, codes=(DOUBLE.id,)),),
    )


@pytest.fixture
def flux() -> Recording:
    """Six compilations of each block, as the real model shows under dynamic=True in ascending order."""
    text = "encoder_hidden_states.size()[1]"
    view = failure(
        "view_base", "hidden_states", "a view of [1, 21, 32]", "no view", advice="run under torch.inference_mode()"
    )
    stride = failure("stride", "encoder_hidden_states.stride()[0]", "672", "896", advice="call .contiguous()")

    def block(n: int, code: CodeObject, layout: Failure) -> tuple[Compilation, ...]:
        def zero_one(expected: str, actual: str) -> Failure:
            return failure("zero_one", text, expected, actual, advice="mark_unbacked on this dimension")

        near = Recompile(
            entries=(
                EntryMiss(id=f"{n}/1", failing=(zero_one("0", "1"),), confirmed=True),
                EntryMiss(id=f"{n}/2", failing=(layout,), confirmed=True),
            ),
            closest=f"{n}/1",
            alternatives=(f"{n}/2",),
            causes=(zero_one("0", "1"),),
            shape_driven=True,
            axes=("text_len",),
        )
        return (
            compiled(f"{n}/0", code, point={"text_len": 0}),
            recompiled(f"{n}/1", code, layout, axes=()),
            recompiled(f"{n}/2", code, zero_one("0", "1")),
            compiled(f"{n}/3", code, recompile=near),
            recompiled(f"{n}/4", code, zero_one("1", "7")),
            recompiled(f"{n}/5", code, layout, axes=()),
        )

    points = tuple(
        SweepPoint(values={"height": h, "text_len": t}, status="ok", seconds=0.5)
        for h in (3, 5, 7, 6)
        for t in (0, 1, 7, 77)
    )
    sweep = Sweep(
        workload="flux",
        order="grid",
        axes={"height": (3, 5, 7, 6), "text_len": (0, 1, 7, 77)},
        points=points,
        summary={
            "height": AxisSummary(free=True, compiles_at=(), because=()),
            "text_len": AxisSummary(free=False, compiles_at=(0, 1), because=("zero_one",), free_except=(0, 1)),
        },
    )
    return Recording(
        meta=meta(),
        code_objects=(DOUBLE, SINGLE),
        compilations=block(0, DOUBLE, view) + block(1, SINGLE, stride),
        targets=(
            Target(selector="FluxTransformerBlock.forward", status="compiled", compiles=6, codes=(DOUBLE.id,)),
            Target(selector="FluxSingleTransformerBlock.forward", status="compiled", compiles=6, codes=(SINGLE.id,)),
        ),
        sweeps=(sweep,),
    )


@pytest.fixture
def nothing() -> Recording:
    return Recording(meta=meta())


@pytest.fixture
def limit_hit() -> Recording:
    sizes = ((16, 24), (24, 40), (40, 56), (56, 72), (72, 88), (88, 104), (104, 120))
    size = "hidden_states.size()[1]"
    recompiles = tuple(
        recompiled(f"0/{n}", DOUBLE, failure("size", size, str(old), str(new)))
        for n, (old, new) in enumerate(sizes, start=1)
    )
    error = CompileError(kind="recompile_limit", type="RecompileLimit", message="recompile_limit reached")
    refused = Compilation(id="0/8", code=DOUBLE.id, outcome="limit", seconds=0.01, limit=8, error=error)
    return Recording(
        meta=meta(),
        code_objects=(DOUBLE,),
        compilations=(compiled("0/0", DOUBLE), *recompiles, refused),
        fallbacks=(Fallback(code=DOUBLE.id, kind="recompile_limit", calls=21, detail="no entry fits"),),
    )


@pytest.fixture
def faulty(limit_hit: Recording) -> Recording:
    """Every fault at once."""
    wrapper = CodeObject(
        id="diffusers/utils/peft_utils.py:wrapper",
        qualname="apply_lora_scale.<locals>.decorator.<locals>.wrapper",
        file="diffusers/utils/peft_utils.py",
        line=300,
        owner="FluxTransformer2DModel",
    )
    resumed = CodeObject(
        id=f"{FLUX}:torch_dynamo_resume_in_forward_at_702",
        qualname="FluxTransformerBlock.torch_dynamo_resume_in_forward_at_702",
        file=FLUX,
        line=702,
        resumes=DOUBLE.id,
    )
    error = CompileError(kind="backend_error", type="BackendCompilerFailed", message="backend said no", where=LINE)
    bad = Parity(max_abs=0.5, relative_l2=0.25, psnr=12.0, bitwise=False)
    sweep = Sweep(
        workload="flux",
        order="random",
        axes={"height": (3, 5), "text_len": (0, 7), "batch": (1,)},
        points=(
            SweepPoint(values={"height": 3, "text_len": 0, "batch": 1}, status="ok", seconds=1.0, parity=bad),
            SweepPoint(
                values={"height": 3, "text_len": 7, "batch": 1}, status="error", seconds=0.1, error="IndexError: x"
            ),
        ),
        summary={
            "height": AxisSummary(free=True, compiles_at=(), because=()),
            "text_len": AxisSummary(free=False, compiles_at=(7,), because=("size",)),
        },
        warnings=("text_len 7 equals a static width of the model",),
        completed=False,
    )
    return msgspec.structs.replace(
        limit_hit,
        meta=meta(
            counts_runs=False,
            run=Run(status="raised", error="ValueError: bad prompt", traceback="Traceback\n  boom\n\nValueError"),
        ),
        code_objects=(*limit_hit.code_objects, wrapper, resumed),
        compilations=(
            *limit_hit.compilations,
            compiled("1/0", resumed),
            recompiled("1/1", resumed, failure(None, "x"), shape_driven=None, axes=None),
            compiled("2/0", wrapper, recompile=Recompile(entries=())),
            Compilation(id="3/0", code=wrapper.id, outcome="failed", seconds=0.2, error=error),
        ),
        graph_breaks=(
            GraphBreak(
                code=DOUBLE.id,
                file=FLUX,
                line=702,
                kind="data_dependent_branch",
                registry_id="GB0170",
                reason="Data-dependent branching",
                events=9,
                skips_frame=True,
                text="if mask is not None and torch.any(~mask):",
            ),
        ),
        fallbacks=(
            *limit_hit.fallbacks,
            Fallback(code=wrapper.id, kind="user_exception", calls=None, detail="raised while traced"),
        ),
        targets=(
            Target(selector="Never.forward", status="never_reached", compiles=0),
            Target(selector="Skipped.forward", status="skipped", compiles=0),
            Target(selector="Cached.forward", status="cached", compiles=0),
            Target(selector="Norm.forward", status="inlined", compiles=0, inlined_into=DOUBLE.id),
        ),
        sweeps=(sweep,),
        findings=(Finding(rule="CS101", code=DOUBLE.id, message="7 recompiles, 0 allowed", file=FLUX, line=410),),
    )


@pytest.fixture
def big() -> Recording:
    """300 compilations of 60 code objects, 200 graph breaks, and much of everything else."""
    codes = tuple(
        CodeObject(id=f"m.py:Model{n}.forward", qualname=f"Model{n}.forward", file="m.py", line=n) for n in range(60)
    )
    attempts = [compiled(f"{n}/0", code) for n, code in enumerate(codes)]
    for n in range(240):
        code = codes[n % 60]
        causes = [failure(kind, f"arg{n}[{i}].size()[1]" * 3) for i, kind in enumerate(("size", "stride", "dtype"))]
        attempts.append(recompiled(f"{n % 60}/{1 + n // 60}", code, *causes))
    breaks = tuple(
        GraphBreak(
            code=codes[n % 60].id,
            file=f"package/{'deep/' * 20}module{n}.py",
            line=n,
            kind="item",
            registry_id=f"GB{n:04}",
            reason="Tensor.item() " * 20,
            events=200 - n,
            skips_frame=n % 7 == 0,
        )
        for n in range(200)
    )
    axes = {f"axis{n}": tuple(range(12)) for n in range(30)}
    points = tuple(
        SweepPoint(values=dict.fromkeys(axes, n), status="error", seconds=0.1, error=f"Error {n} " * 30)
        for n in range(50)
    )
    return Recording(
        meta=meta(counts_runs=False, run=Run(status="interrupted")),
        code_objects=codes,
        compilations=tuple(attempts),
        graph_breaks=breaks,
        fallbacks=tuple(Fallback(code=c.id, kind="skipped_frame", calls=3, detail="why " * 50) for c in codes),
        targets=tuple(Target(selector=f"T{n}.forward", status="never_reached", compiles=0) for n in range(40)),
        sweeps=(Sweep(workload="big", order="grid", axes=axes, points=points, warnings=("w" * 300,) * 20),),
        findings=tuple(Finding(rule="CS101", code=None, message="over budget " * 30) for _ in range(80)),
    )


@pytest.fixture
def hostile() -> Recording:
    """Text that would break a page: pipes, markup, backticks, HTML, newlines, escapes, long paths, wide characters."""
    nasty = "a|b `c` [red]d[/red] </details><b>e</b> @team #1\n| x |\x1b[2J 漢字 \u202e " + "long/" * 200
    code = CodeObject(id=nasty, qualname=f"q{nasty}", file=nasty, line=1, owner=nasty)
    where = Location(file=nasty, line=2, text=nasty)
    cause = failure("size", nasty, nasty, nasty, where=where, advice=nasty)
    return Recording(
        meta=meta(argv=(nasty,), run=Run(status="raised", error=nasty, traceback=f"{nasty}\n\n</pre><b>{nasty}")),
        code_objects=(code,),
        compilations=(compiled("0/0", code), recompiled("0/1", code, cause)),
        graph_breaks=(
            GraphBreak(
                code=nasty,
                file=nasty,
                line=1,
                kind="other",
                registry_id=nasty,
                reason=nasty,
                events=1,
                skips_frame=False,
            ),
        ),
        fallbacks=(Fallback(code=nasty, kind="stance", calls=1, detail=nasty),),
        targets=(Target(selector=nasty, status="never_reached", compiles=0),),
        sweeps=(
            Sweep(
                workload=nasty,
                order="grid",
                axes={nasty: (nasty, 1)},
                points=(SweepPoint(values={nasty: nasty}, status="error", seconds=0.1, error=nasty),),
                warnings=(nasty,),
            ),
        ),
        findings=(Finding(rule=nasty, code=nasty, message=nasty, file=nasty, line=1),),
    )
