"""What diffusers' transformers cost under regional compilation, as a bare counter says that knows no compilescope.

The table was taken by such a counter around Dynamo's compile function on torch 2.13 (diffusers 0.42.1):
compilations that produced code, and attempts that the recompile limit refused under ``fullgraph=True``. It
holds for any number of blocks, since all blocks of a class share one code object, and on torch 2.11 and 2.14 too.
A later torch compiles less (2.15 needs no second graph for inputs that are no views): there the counter runs
beside.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

import compilescope
from models.diffusers_dits import DITS, Dit, Size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from compilescope.record import Failure, Recording

diffusers = pytest.importorskip("diffusers", reason="the models are diffusers'")

RESOLUTIONS: Final = ((3, 7), (5, 7), (7, 5), (6, 6))
DYNAMIC: Final = {"dynamic": True, "automatic": None, "static": False}


@dataclass(frozen=True)
class Count:
    """Compilations of one block class, and refused attempts."""

    compiled: int
    refused: int = 0


def _counts(*numbers: int | tuple[int, int]) -> tuple[Count, ...]:
    return tuple(Count(n) if isinstance(n, int) else Count(*n) for n in numbers)


# By model: what each of its block classes costs, in the order of Dit.blocks.
MEASURED: Final = {
    ("flux", "dynamic", "asc"): _counts(6, 6),
    ("flux", "automatic", "asc"): _counts((8, 6), (8, 3)),
    ("flux", "automatic", "cfg"): _counts(5, 6),
    ("flux", "static", "asc"): _counts((8, 4), (8, 8)),
    ("flux2", "dynamic", "asc"): _counts(3, 1),
    ("flux2", "automatic", "asc"): _counts(6, 2),
    ("flux2", "automatic", "cfg"): _counts(3, 2),
    ("flux2", "static", "asc"): _counts((8, 4), 8),
    ("qwen_image", "dynamic", "asc"): _counts(4),
    ("qwen_image", "automatic", "asc"): _counts(7),
    ("qwen_image", "automatic", "cfg"): _counts(5),
    ("qwen_image", "static", "asc"): _counts((8, 1)),
    ("z_image", "dynamic", "asc"): _counts(3),
    ("z_image", "automatic", "asc"): _counts(4),
    ("z_image", "automatic", "cfg"): _counts(3),
    ("z_image", "static", "asc"): _counts(8),
    ("hunyuan_video15", "dynamic", "asc"): _counts(1, 2, 2),
    ("hunyuan_video15", "dynamic", "desc"): _counts(2, 2, 2),
    ("hunyuan_video15", "automatic", "asc"): _counts(3, 2, 4),
    ("hunyuan_video15", "automatic", "cfg"): _counts(3, 2, 4),
    ("hunyuan_video15", "static", "asc"): _counts(4, 3, (8, 1)),
    ("ovis_image", "dynamic", "asc"): _counts(6, 6),
    ("ovis_image", "automatic", "asc"): _counts((8, 6), (8, 3)),
    ("ovis_image", "automatic", "cfg"): _counts(5, 6),
    ("ovis_image", "static", "asc"): _counts((8, 4), (8, 8)),
    ("lumina2", "dynamic", "asc"): _counts(4),
    ("lumina2", "automatic", "asc"): _counts(4),
    ("lumina2", "automatic", "cfg"): _counts(4),
    ("lumina2", "static", "asc"): _counts((8, 9)),
}

# Ovis-Image's blocks are FLUX's, and a setting without shared graphs takes longest.
SLOW: Final = {key for key in MEASURED if key[0] == "ovis_image" and key[1] != "dynamic"} | {("flux", "static", "asc")}
CELLS: Final = [pytest.param(*key, marks=[pytest.mark.slow] if key in SLOW else []) for key in MEASURED]
TABLE_HOLDS_TO: Final = (2, 14)


def _torch_version() -> tuple[int, int]:
    import torch

    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def _expected(dit: Dit, name: str, setting: str, order: str) -> tuple[Count, ...]:
    if _torch_version() <= TABLE_HOLDS_TO:
        return MEASURED[name, setting, order]
    return _bare_counts(dit, DYNAMIC[setting], order)


def _bare_counts(dit: Dit, dynamic: bool | None, order: str) -> tuple[Count, ...]:  # noqa: FBT001 (torch.compile's)
    """Count compilations by block without compilescope, from an empty cache, which is left empty."""
    import torch
    from torch._dynamo import convert_frame, exc

    counted = {f"{block}.forward": [0, 0] for block in dit.blocks}
    original = convert_frame._compile

    def count(code: CodeType, *args: object, **kwargs: object) -> object:
        tally = counted.get(code.co_qualname, [0, 0])
        try:
            result = original(code, *args, **kwargs)
        except exc.FailOnRecompileLimitHit:
            tally[1] += 1
            raise
        tally[0] += result.guarded_code is not None
        return result

    model = dit.build()
    model.compile_repeated_blocks(fullgraph=True, backend="eager", dynamic=dynamic)
    convert_frame._compile = count
    try:
        for height, width, text in _points(order, empty_text=dit.empty_text):
            _call(dit, model, Size(height, width, text))
    finally:
        convert_frame._compile = original
    torch.compiler.reset()
    return tuple(Count(*tally) for tally in counted.values())


def _points(order: str, *, empty_text: bool) -> list[tuple[int, int, int]]:
    texts = (77, 7, 77, 7) if order == "cfg" else ((0, 1, 7, 77) if empty_text else (1, 7, 77))
    points = [(height, width, text) for (height, width), text in itertools.product(RESOLUTIONS, texts)]
    return points[::-1] if order == "desc" else points


def _record(dit: Dit, dynamic: bool | None, order: str) -> Recording:  # noqa: FBT001 (torch.compile's own argument)
    model = dit.build()
    model.compile_repeated_blocks(fullgraph=True, backend="eager", dynamic=dynamic)
    with compilescope.observe([f"{name}.forward" for name in dit.blocks]) as scope:
        for height, width, text in _points(order, empty_text=dit.empty_text):
            with scope.at({"height": height, "width": width, "text_len": text}):
                _call(dit, model, Size(height, width, text))
    return scope.recording


def _call(dit: Dit, model: object, size: Size) -> None:
    from torch._dynamo.exc import FailOnRecompileLimitHit

    # Under fullgraph=True the limit is an error; the counts above hold refused attempts too.
    with contextlib.suppress(FailOnRecompileLimitHit):
        dit.call(model, size)


def _texts(failure: Failure) -> Iterator[str]:
    yield from (failure.source, failure.guard, failure.expected, failure.actual)


@pytest.mark.parametrize(("name", "setting", "order"), CELLS, ids=["-".join(key) for key in MEASURED])
@pytest.mark.usefixtures("fresh_dynamo")
def test_blocks_compile_as_often_as_a_bare_counter_says_and_every_recompile_has_a_named_cause(
    name: str, setting: str, order: str
) -> None:
    dit = DITS[name]
    expected = _expected(dit, name, setting, order)
    recording = _record(dit, DYNAMIC[setting], order)

    by_block = {
        block: [c for c in recording.compilations if c.code.endswith(f":{block}.forward")] for block in dit.blocks
    }
    counted = tuple(
        Count(
            compiled=sum(c.outcome == "compiled" for c in found),
            refused=sum(c.outcome == "limit" for c in found),
        )
        for found in by_block.values()
    )
    assert counted == expected
    for compilation in recording.compilations:
        if compilation.recompile is None:
            continue
        assert compilation.recompile.causes
        for cause in compilation.recompile.causes:
            assert cause.kind not in {"unknown", "guard_error", None}
            assert all(_texts(cause))
            assert not any("'NoneType' object has no attribute" in text for text in _texts(cause))


@pytest.mark.usefixtures("fresh_dynamo")
def test_flux_second_block_is_told_to_get_an_input_that_is_no_view() -> None:
    recording = _record(DITS["flux"], dynamic=True, order="asc")

    kinds = {cause.kind for c in recording.recompiles for cause in c.recompile.causes}
    if _torch_version() > TABLE_HOLDS_TO and "view_base" not in kinds:
        pytest.skip("this torch needs no second graph for an input that is no view")
    second = next(c for c in recording.recompiles if c.code.endswith(":FluxTransformerBlock.forward"))
    (cause,) = second.recompile.causes
    assert (cause.kind, cause.source) == ("view_base", "hidden_states._base")
    assert cause.actual == "not a view (its _base is None)"
    assert cause.where is not None


@pytest.mark.usefixtures("fresh_dynamo")
def test_flux_text_length_is_what_makes_it_compile_and_its_resolution_is_free() -> None:
    recording = _record(DITS["flux"], dynamic=True, order="asc")

    kinds = {(cause.kind, cause.source) for c in recording.recompiles for cause in c.recompile.causes}
    assert ("zero_one", "encoder_hidden_states.size()[1]") in kinds
    assert not any("image" in source and kind in {"size", "zero_one"} for kind, source in kinds)
    assert {c.point["height"] for c in recording.compiled} == {3}


@pytest.mark.parametrize(("name", "billions"), [("flux", 11.9), ("qwen_image", 20.4)], ids=("flux", "qwen_image"))
def test_full_configurations_have_the_parameters_of_the_released_models(name: str, billions: float) -> None:
    model = DITS[name].build(size="full", device="meta")

    assert sum(p.numel() for p in model.parameters()) / 1e9 == pytest.approx(billions, abs=0.05)
