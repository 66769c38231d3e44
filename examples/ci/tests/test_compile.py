"""What TinyDiT promises of torch.compile: eager's results, and two graphs of its block whatever the shapes."""

import pytest
import torch
from tinydit import TinyDiT, TransformerBlock, regionally_compile


def build() -> TinyDiT:
    torch.manual_seed(0)
    return TinyDiT().eval()


def run(model: TinyDiT, height: int, width: int, text_len: int) -> torch.Tensor:
    torch.manual_seed(1)
    with torch.inference_mode():
        return model(torch.randn(1, 16, height, width), torch.randn(1, text_len, 24), torch.rand(1))


@pytest.mark.parametrize("text_len", [0, 4, 77])
@pytest.mark.compile_budget(TransformerBlock, compiles=2)  # one for each class of norm1
def test_compiled_equals_eager(text_len: int) -> None:
    compiled = regionally_compile(build(), backend="eager", dynamic=True, fullgraph=True)
    torch.testing.assert_close(run(compiled, 32, 32, text_len), run(build(), 32, 32, text_len), rtol=1e-5, atol=1e-5)


@pytest.mark.no_shape_recompile(targets=TransformerBlock)
@pytest.mark.compile_budget(TransformerBlock, kinds={"module_type": 1})  # norm1 is of two classes
def test_two_graphs_serve_every_shape() -> None:
    compiled = regionally_compile(build(), backend="eager", dynamic=True, fullgraph=True)
    for height, width, text_len in [(32, 32, 77), (32, 64, 77), (64, 32, 4), (32, 48, 0)]:
        run(compiled, height, width, text_len)
