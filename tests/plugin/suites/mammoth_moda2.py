"""Three ways in which a compile test of MammothModa2 said the wrong thing, each beside the same test with our marks.

The claim is vLLM-Omni's: something was compiled at the first shape, and nothing at the shapes after it. Its
first counter counted whatever Dynamo compiled.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._dynamo import convert_frame

from models.diffusers_dits import Size
from models.mammoth_moda2 import Transformer2DModel, build, inputs, tables
from models.mammoth_moda2.rope import text_positions
from models.regional import regionally_compile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType

TARGET = "TransformerBlock.forward"
SHAPES = [Size(16, 16, 77), Size(16, 32, 77), Size(32, 16, 4)]


@contextlib.contextmanager
def bare_counter() -> Iterator[list[str]]:
    counted: list[str] = []
    original = convert_frame._compile

    def count(code: CodeType, *args: Any, **kwargs: Any) -> object:
        counted.append(code.co_qualname)
        return original(code, *args, **kwargs)

    convert_frame._compile = count
    try:
        yield counted
    finally:
        convert_frame._compile = original


def run(model: Transformer2DModel, shapes: Sequence[Size]) -> None:
    freqs_cis = tables(model)
    with torch.no_grad():
        for size in shapes:
            model(**inputs(model, size, freqs_cis))


def compiled(*, blocks: Sequence[str] = ("TransformerBlock",), activation: bool = False) -> Transformer2DModel:
    model = build()
    model._repeated_blocks = list(blocks)
    regionally_compile(model, backend="eager", dynamic=True, fullgraph=True)
    if activation:
        # What vLLM's custom ops do on their own.
        for block in model.layers:
            silu = block.feed_forward.silu
            silu.forward = torch.compile(silu.forward, backend="eager", dynamic=True)
    return model


def counts(model: Transformer2DModel) -> tuple[int, int]:
    """Compilations after the first shape, and after all."""
    with bare_counter() as counted:
        run(model, SHAPES[:1])
        first = len(counted)
        run(model, SHAPES[1:])
    return first, len(counted)


# The first story: the model does not name its blocks, and the compile function only warns.


def test_unchanged_count_of_nothing() -> None:
    torch.compiler.reset()
    first, last = counts(compiled(blocks=()))
    assert last == first


@pytest.mark.no_shape_recompile(TARGET)
def test_unchanged_count_of_nothing_marked() -> None:
    run(compiled(blocks=()), SHAPES)


# The second: it must be one at least, and it is, for an activation is compiled on its own.


def test_count_of_something_else() -> None:
    torch.compiler.reset()
    first, last = counts(compiled(blocks=(), activation=True))
    assert first >= 1
    assert last == first


@pytest.mark.no_shape_recompile(TARGET)
def test_count_of_something_else_marked() -> None:
    run(compiled(blocks=(), activation=True), SHAPES)


# The third: all is well but for a test that ran before and left its graphs behind.


def test_that_ran_before() -> None:
    torch.compiler.reset()
    first, last = counts(compiled())
    assert first >= 1
    assert last == first


def test_count_behind_it() -> None:
    first, last = counts(compiled())
    assert first >= 1
    assert last == first


@pytest.mark.no_shape_recompile(TARGET)
@pytest.mark.compile_budget(TARGET, compiles=2)
def test_count_behind_it_marked() -> None:
    run(compiled(), SHAPES)


# The fourth: the empty prompt of guidance, refined like any other text. Only a size changes.


@pytest.mark.no_shape_recompile(TARGET)
def test_empty_prompt_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transformer2DModel, "_refine_text", refine_every_text)
    run(compiled(), [Size(8, 8, 77), Size(8, 8, 4), Size(8, 8, 0)])


def refine_every_text(self: Transformer2DModel, text: torch.Tensor, given: object) -> torch.Tensor:
    lengths = [sample.text for sample in given.samples]
    mask = self._mask(lengths, text.shape[1], text.device)
    rotary = self._rotary(given, [text_positions(n, text.device) for n in lengths], text.shape[1], text.dtype)
    text = text.clone()
    for block in self.context_refiner:
        text = block(text, mask, rotary)
    return text
