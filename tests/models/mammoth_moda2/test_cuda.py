"""The published widths on a GPU: fused and eager chains, both backends, and how often the blocks compile."""

from __future__ import annotations

from typing import Any

import pytest

import compilescope
import fused_ops

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.diffusers_dits import Size  # noqa: E402 (behind the skips)
from models.mammoth_moda2 import Transformer2DModel, build, inputs, tables  # noqa: E402
from models.mammoth_moda2.block import norm_and_rotate  # noqa: E402
from models.mammoth_moda2.rope import look_up, text_positions, with_table  # noqa: E402
from models.regional import regionally_compile  # noqa: E402

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def model(**settings: Any) -> Transformer2DModel:
    return build("preview", device="cuda", dtype=torch.bfloat16, **{"num_layers": 2, **settings})


def predict(made: Transformer2DModel, height: int, width: int, text_len: int, batch: int = 1) -> torch.Tensor:
    size = Size(height, width, text_len, batch, device="cuda", dtype=torch.bfloat16)
    with torch.inference_mode():
        return made(**inputs(made, size, tables(made, "cuda")))


@pytest.mark.parametrize("batch", [1, 2])
def test_fused_call_is_the_eager_chain_to_a_rounding(batch: int) -> None:
    made = model(num_layers=1)
    attn, tokens = made.layers[0].attn, 4173
    draw = torch.Generator("cuda").manual_seed(0)
    query, key = (
        torch.randn(batch, tokens, heads, 120, generator=draw, device="cuda", dtype=torch.bfloat16) for heads in (21, 7)
    )
    positions = [text_positions(tokens, query.device)] * batch
    rotary = look_up(tables(made, "cuda"), positions, tokens)
    with torch.inference_mode():
        eager = norm_and_rotate(attn, query, key, rotary)
        fused = norm_and_rotate(attn, query, key, with_table(rotary, activation_dtype=torch.bfloat16))
    for one, other in zip(fused, eager, strict=True):
        torch.testing.assert_close(one, other, atol=0.0625, rtol=0.02)


def test_every_block_that_runs_launches_the_kernel_once() -> None:
    made = model()
    with fused_ops.count_launches() as counts:
        predict(made, 16, 16, 77)
    assert (counts.per_stream, counts.joint) == (2 + 2 + 2, 0)
    with fused_ops.count_launches() as counts:
        predict(made, 16, 16, 0)
    assert counts.per_stream == 2 + 2


@pytest.mark.parametrize("text_len", [0, 77])
def test_backends_and_fused_and_eager_chains_agree(text_len: int) -> None:
    expected = predict(model(fused_qk_norm_rope=False), 32, 48, text_len).double()
    for settings in ({}, {"attention_backend": "flash"}, {"attention_backend": "flash_opaque"}):
        out = predict(model(**settings), 32, 48, text_len).double()
        assert (out - expected).norm() / expected.norm() < 2e-2


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("attention", ["sdpa", "flash"])
def test_two_graphs_serve_a_pipeline_s_requests_under_inductor(
    attention: str,
    fused: bool,  # noqa: FBT001 (a parameter of the table)
) -> None:
    settings = {"attention_backend": attention, "fused_qk_norm_rope": fused}
    made, eager = model(**settings), model(**settings)
    regionally_compile(made, dynamic=True, fullgraph=True)
    with compilescope.observe(["TransformerBlock.forward"]) as scope:
        for height, width, text_len in [(32, 32, 77), (32, 32, 0), (64, 40, 300), (64, 40, 0), (40, 64, 5)]:
            expected = predict(eager, height, width, text_len).double()
            out = predict(made, height, width, text_len).double()
            assert (out - expected).norm() / expected.norm() < 2e-2
    assert len(scope.recording.compiled) == 2
    assert not scope.recording.graph_breaks
