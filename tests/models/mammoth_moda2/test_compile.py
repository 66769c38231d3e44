"""How often the blocks compile, and that they stay there: compilescope's marks on the model itself.

Two graphs are right, one for each kind of block. Points are chosen so that no token count is a width
of the tiny model (24, 48, 96, 384), which would make that size static.
"""

from __future__ import annotations

import itertools
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import compilescope

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.diffusers_dits import Size  # noqa: E402 (behind the skips)
from models.mammoth_moda2 import build, free_sizes, inputs, leave_sizes_free, tables  # noqa: E402
from models.regional import regionally_compile  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

    from models.mammoth_moda2 import Transformer2DModel

    Point = tuple[tuple[int, int], int, int]

TARGET = "TransformerBlock.forward"
# The two kinds differ in norm1's class, in the flag beside it, and in whether there is a timestep.
KINDS = {"module_type": 1, "module_attr": 1, "none_vs_value": 1}
SQUARE, WIDE, TALL = (8, 8), (4, 13), (11, 5)
POINTS = list(itertools.product((SQUARE, WIDE, TALL), (0, 1, 4, 77, 512), (1, 2)))
VIEWS_SHARE_A_GRAPH = "2.15"

unbacked = pytest.mark.skipif(not free_sizes.SUPPORTED, reason="this torch cannot be told a least size")


def compiled(backend: str = "eager", *, fullgraph: bool = True, **settings: Any) -> Transformer2DModel:
    model = build(**settings)
    assert regionally_compile(model, backend=backend, dynamic=True, fullgraph=fullgraph) == 5
    return model


def is_eager_s(model: Transformer2DModel, points: Iterable[Point], **settings: Any) -> bool:
    """Call ``model`` at every point and compare with a second one that is not compiled."""
    eager, freqs_cis = build(**settings), tables(model)
    with torch.no_grad():
        for (height, width), text_len, batch in points:
            given = inputs(model, Size(height, width, text_len, batch), freqs_cis)
            torch.testing.assert_close(model(**given), eager(**given), rtol=1e-5, atol=1e-5)
    return True


def ordered(order: str) -> list[Point]:
    points = POINTS[:: -1 if order == "descending" else 1]
    if order == "shuffled":
        random.Random(5).shuffle(points)  # noqa: S311 (an order, no secret)
    return points


@pytest.mark.no_shape_recompile(TARGET, "*.forward")
@pytest.mark.compile_budget(TARGET, compiles=2, kinds=KINDS, graph_breaks=0)
@pytest.mark.parametrize("attention", ["sdpa", "flash"])
def test_two_graphs_serve_every_resolution_and_text_length(attention: str) -> None:
    model = compiled(attention_backend=attention)
    points = [((16, 16), 77, 1), ((16, 32), 77, 1), ((32, 16), 4, 1), ((16, 16), 0, 1)]
    assert is_eager_s(model, points, attention_backend=attention)


@unbacked
@pytest.mark.no_shape_recompile(TARGET)
@pytest.mark.compile_budget(TARGET, compiles=2, kinds=KINDS, graph_breaks=0)
@pytest.mark.parametrize(
    ("attention", "publishing", "order"),
    [
        ("sdpa", "auto", "ascending"),
        ("sdpa", "padding", "descending"),
        pytest.param("flash", "auto", "shuffled", marks=pytest.mark.slow),
        ("flash", "padding", "ascending"),
    ],
)
def test_with_unbacked_sizes_two_graphs_serve_one_token_and_two_images_too(
    attention: str, publishing: str, order: str
) -> None:
    settings = {"attention_backend": attention, "mask_publishing": publishing}
    model = compiled(**settings)
    leave_sizes_free(model)
    assert is_eager_s(model, ordered(order), **settings)


@pytest.mark.no_shape_recompile(TARGET)
@pytest.mark.compile_budget(TARGET, compiles=2, kinds=KINDS, graph_breaks=0)
@pytest.mark.parametrize(("attention", "order"), [("sdpa", "ascending"), ("sdpa", "shuffled"), ("flash", "descending")])
def test_with_oblivious_sizes_two_graphs_serve_one_token_and_two_images_too(attention: str, order: str) -> None:
    from torch.fx.experimental import _config as shapes

    # The mark puts them back.
    shapes.backed_size_oblivious = True
    shapes.use_duck_shape = False
    assert is_eager_s(compiled(attention_backend=attention), ordered(order), attention_backend=attention)


@unbacked
@pytest.mark.no_shape_recompile(TARGET)
@pytest.mark.compile_budget(TARGET, compiles=2, kinds=KINDS, graph_breaks=0)
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler on a CPU")
@pytest.mark.parametrize(("attention", "publishing"), [("sdpa", "auto"), ("flash", "padding")])
def test_unbacked_sizes_hold_under_inductor(attention: str, publishing: str) -> None:
    settings = {"attention_backend": attention, "mask_publishing": publishing}
    model = compiled("inductor", **settings)
    leave_sizes_free(model)
    assert is_eager_s(model, [(SQUARE, 1, 1), (WIDE, 0, 2), (TALL, 77, 1), (SQUARE, 4, 2)], **settings)


@pytest.mark.no_shape_recompile(TARGET, broken="dynamic=True makes graphs of their own for sizes 0 and 1")
@pytest.mark.parametrize("point", [(SQUARE, 1, 1), (SQUARE, 4, 2)], ids=["one_token", "two_images"])
def test_without_remedies_one_token_and_two_images_are_graphs_of_their_own(point: Point) -> None:
    assert is_eager_s(compiled(), [(SQUARE, 4, 1), point])


@unbacked
@pytest.mark.no_shape_recompile(TARGET)
@pytest.mark.compile_budget(TARGET, compiles=2, kinds=KINDS, graph_breaks=0)
@pytest.mark.parametrize("attention", ["sdpa", "flash"])
def test_padded_batches_and_reference_images_take_the_same_graphs(attention: str) -> None:
    """Where every mask is published as padding; ``auto`` has a graph more for what is not padded."""
    settings = {"attention_backend": attention, "mask_publishing": "padding"}
    model, eager = compiled(**settings), build(**settings)
    leave_sizes_free(model)
    freqs_cis = tables(model)
    draw = torch.Generator().manual_seed(3)
    references = [[torch.randn(16, 6, 4, generator=draw)], [torch.randn(16, 4, 4, generator=draw)] * 2]
    with torch.no_grad():
        for lengths in ((5, 5), (5, 2), (1, 4)):
            given = inputs(model, Size(*WIDE, max(lengths), 2), freqs_cis)
            given["text_attention_mask"] = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
            for refs in (None, references):
                given["ref_image_hidden_states"] = refs
                torch.testing.assert_close(model(**given), eager(**given), rtol=1e-5, atol=1e-5)


@pytest.mark.max_graph_breaks(1)
@pytest.mark.no_shape_recompile(TARGET)
def test_a_mask_that_must_be_asked_breaks_every_graph_at_one_place() -> None:
    settings = {"attention_backend": "flash", "mask_publishing": "unknown"}
    assert is_eager_s(compiled(fullgraph=False, **settings), [(SQUARE, 77, 1), (WIDE, 4, 1)], **settings)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("attention", "publishing", "sites"),
    [
        ("flash", "auto", {}),
        ("flash", "unknown", {("models/attention/flash.py", "data_dependent_branch")}),
        ("flash_opaque", "auto", {("models/attention/varlen.py", "no_fake_kernel")}),
        (
            "flash_opaque",
            "unknown",
            {
                ("models/attention/flash.py", "data_dependent_branch"),
                ("models/attention/varlen.py", "no_fake_kernel"),
            },
        ),
    ],
)
def test_the_two_kinds_of_graph_break_are_found_where_they_are(attention: str, publishing: str, sites: Any) -> None:
    settings = {"attention_backend": attention, "mask_publishing": publishing}
    with compilescope.observe([TARGET]) as scope:
        is_eager_s(compiled(fullgraph=False, **settings), [(SQUARE, 77, 1), (WIDE, 4, 1)], **settings)
    found = {(site.file, site.kind) for site in scope.recording.graph_breaks}
    assert found == set(sites)
    assert all(site.events > 1 for site in scope.recording.graph_breaks)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("owned", [True, False])
def test_blocks_get_tensors_of_their_own_because_views_are_another_graph(
    owned: bool,  # noqa: FBT001 (a parameter of the table)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not owned:
        monkeypatch.setattr("models.mammoth_moda2.transformer.own", lambda x: x)
    with compilescope.observe([TARGET]) as scope:
        is_eager_s(compiled(num_refiner_layers=1), [(SQUARE, 77, 1)])
    kinds = {cause.kind for one in scope.recording.recompiles for cause in one.recompile.causes}
    if not owned and not kinds & {"view_base"} and torch.__version__ >= VIEWS_SHARE_A_GRAPH:
        pytest.skip("this torch needs no second graph for an input that is no view")
    assert ("view_base" in kinds) is not owned


def test_torch_that_cannot_leave_sizes_free_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_sizes, "SUPPORTED", False)
    with pytest.raises(RuntimeError, match="cannot be told that an unbacked size is at least 1"):
        leave_sizes_free(build())
