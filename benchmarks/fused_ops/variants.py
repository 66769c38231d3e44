"""Measure how the kernel could be cut or written otherwise: tiles, and edits of its source.

    python -m benchmarks.fused_ops.variants

Prints, for each case, every variant's time and its share of copy bandwidth, fastest first. What was
learned from it is in docs/kernels.md. An edit is a replacement in ``fused_ops/kernels.py``; one that no
longer applies is an error.
"""

from __future__ import annotations

import importlib.util
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from benchmarks.fused_ops import timing
from benchmarks.fused_ops.cases import CASES, Case, fused_joint, fused_stream, make_inputs
from fused_ops import launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = Path(launch.__file__).with_name("kernels.py")
LOAD = "mask=mask, other=0.0)"
STORE = "mask=mask)"
BODY = "    position = tl.program_id(0) // groups\n"
MULTIPROCESSORS = 132


def _replaced(source: str, old: str, new: str) -> str:
    if old not in source:
        msg = f"the kernel's source no longer holds {old!r}"
        raise ValueError(msg)
    return source.replace(old, new)


def _evict_first(source: str) -> str:
    """Mark what is read as not wanted again."""
    return _replaced(source, LOAD, f'{LOAD[:-1]}, eviction_policy="evict_first")')


def _streaming_stores(source: str) -> str:
    """Mark what is written as not wanted again."""
    return _replaced(source, STORE, f'{STORE[:-1]}, cache_modifier=".cs")')


def _token_major(source: str) -> str:
    """Let neighbouring programs take neighbouring tokens instead of neighbouring heads."""
    source = _replaced(source, BODY, BODY.replace("// groups", "% (seq0 + seq1)"))
    return _replaced(source, "group = tl.program_id(0) % groups", "group = tl.program_id(0) // (seq0 + seq1)")


def _persistent(source: str) -> str:
    """Let a few programs a multiprocessor walk over all tiles."""
    head, body = _replaced(source, BODY, "\0" + BODY).split("\0")
    body = body.replace("tl.program_id(0)", "pid")
    loop = "    for pid in tl.range(tl.program_id(0), (seq0 + seq1) * groups, tl.num_programs(0)):\n"
    return head + loop + "".join(f"    {line}" if line.strip() else line for line in body.splitlines(keepends=True))


@dataclass(frozen=True)
class Variant:
    """A way to build and cut the kernel.

    Attributes:
        name: what is printed.
        tile: how the work is cut; the package's choice if None.
        edit: a change of the kernel's source, if any.
        programs: programs a multiprocessor, where the kernel is persistent.
    """

    name: str
    tile: launch.Tile | None = None
    edit: Callable[[str], str] | None = None
    programs: int | None = None


def variants() -> Iterator[Variant]:
    """Yield what is measured."""
    yield Variant("as built")
    for heads in (4, 8, 16, 32, 64):
        for warps in (1, 2, 4, 8):
            yield Variant(f"{heads} heads, {warps} warps", launch.Tile(heads, warps))
    yield Variant("evict-first loads", edit=_evict_first)
    yield Variant("streaming stores", edit=_streaming_stores)
    yield Variant("token-major order", edit=_token_major)
    for programs in (8, 16):
        yield Variant(f"persistent, {programs} programs", edit=_persistent, programs=programs)


def _built(edit: Callable[[str], str] | None, folder: Path) -> Any:  # noqa: ANN401 (Triton's kernel)
    """Import an edited copy of the kernel."""
    if edit is None:
        return launch.norm_rope_kernel
    path = folder / f"{edit.__name__}.py"
    path.write_text(edit(SOURCE.read_text()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.norm_rope_kernel


def _captured(variant: Variant, call: Callable[[int], Any], folder: Path) -> torch.cuda.CUDAGraph:
    """Capture ``call`` with the variant in place, after comparing its result with the built one's."""
    want = call(0)
    grid = launch._grid  # noqa: SLF001 (a persistent kernel has another grid)
    tile = launch.choose_tile

    def smaller_grid(positions: int, batch: int, groups: int) -> tuple[int, int]:
        programs, batch = grid(positions, batch, groups)
        return programs if variant.programs is None else min(programs, MULTIPROCESSORS * variant.programs), batch

    with (
        mock.patch.object(launch, "norm_rope_kernel", _built(variant.edit, folder)),
        mock.patch.object(launch, "choose_tile", lambda *a, **k: variant.tile or tile(*a, **k)),
        mock.patch.object(launch, "_grid", smaller_grid),
    ):
        if not all(torch.equal(x, y) for x, y in zip(call(0), want, strict=True)):
            print(f"  {variant.name}: other bits than the built kernel")
        return timing.capture(call)


def sweep(case: Case, folder: Path) -> None:
    """Print every variant's time on ``case``."""
    fused = fused_joint if case.second else fused_stream
    inputs = [make_inputs(case, seed) for seed in range(timing.CALLS)]
    graphs = {v.name: _captured(v, lambda i: fused(inputs[i]), folder) for v in variants()}
    graphs["copy"] = timing.capture_copy(case.bytes_moved)
    times = timing.compare(graphs, rounds=6)
    copy = times["copy"].median
    print(f"{case.name}: {case.bytes_moved / 1e6:.0f} MB")
    for name, t in sorted(times.items(), key=lambda item: item[1].median):
        print(f"  {name:24s} {t.median:7.1f} us  {copy / t.median:6.1%} of copy", flush=True)


def main() -> None:
    """Sweep all cases."""
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            sweep(case, Path(folder))
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
