"""Both backends on a GPU, at the published geometry and its neighbours, against float64."""

from __future__ import annotations

from typing import Any

import pytest

import compilescope

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.attention import AttentionMetadata, Geometry, Packing, make_attention  # noqa: E402 (behind the skips)

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

GEOMETRIES = [Geometry(21, 7, 120), Geometry(24, 24, 128), Geometry(16, 4, 64), Geometry(6, 6, 120)]


def ids(geometry: Geometry) -> str:
    return f"{geometry.heads}x{geometry.head_dim}_kv{geometry.kv_heads}"


def random(geometry: Geometry, tokens: int, batch: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator("cuda").manual_seed(tokens)
    return tuple(
        torch.randn(batch, tokens, heads, geometry.head_dim, generator=draw, device="cuda", dtype=dtype)
        for heads in (geometry.heads, geometry.kv_heads, geometry.kv_heads)
    )


def in_float64(geometry: Geometry, inputs: tuple[torch.Tensor, ...], mask: torch.Tensor | None = None) -> torch.Tensor:
    query, key, value = (x.double().transpose(1, 2) for x in inputs)
    key, value = (x.repeat_interleave(geometry.group, 1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * geometry.scale
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None], -float("inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2)


def told(how: str, lengths: tuple[int, ...], padded: int) -> tuple[AttentionMetadata | None, torch.Tensor]:
    mask = torch.arange(padded, device="cuda") < torch.tensor(lengths, device="cuda")[:, None]
    if how == "unmasked":
        return None, torch.ones_like(mask)
    packing = Packing.of(lengths, padded, mask.device) if how == "packing" else None
    return AttentionMetadata(mask, None if how == "nothing" else "padding", packing), mask


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=ids)
@pytest.mark.parametrize("how", ["unmasked", "mode", "packing", "nothing"])
@pytest.mark.parametrize("name", ["sdpa", "flash", "flash_opaque"])
def test_bfloat16_is_as_near_to_float64_as_its_rounding_allows(name: str, how: str, geometry: Geometry) -> None:
    inputs = random(geometry, 1101, 2, torch.bfloat16)
    metadata, mask = told(how, (1101, 700), 1101)
    out = make_attention(name, geometry)(*inputs, metadata)
    expected = in_float64(geometry, inputs, mask)
    error = (out.double() - expected)[mask].abs()
    assert error.max() < 2e-2
    assert error.mean() < 1e-3
    if name != "sdpa":
        assert how == "unmasked" or not out[~mask].any()


@pytest.mark.parametrize("name", ["sdpa", "flash"])
@pytest.mark.parametrize("how", ["unmasked", "mode"])
def test_float32_is_computed_in_float32(name: str, how: str) -> None:
    geometry = GEOMETRIES[0]
    inputs = random(geometry, 601, 2, torch.float32)
    metadata, mask = told(how, (601, 400), 601)
    out = make_attention(name, geometry)(*inputs, metadata)
    assert (out.double() - in_float64(geometry, inputs, mask))[mask].abs().max() < 1e-3


@pytest.mark.parametrize("name", ["flash", "flash_opaque"])
def test_empty_query_is_answered_by_an_empty_one(name: str) -> None:
    geometry = GEOMETRIES[0]
    query, key, value = random(geometry, 8, 1, torch.bfloat16)
    assert make_attention(name, geometry)(query[:, :0], key, value).shape == (1, 0, 21, 120)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("geometry", GEOMETRIES[:3], ids=ids)
@pytest.mark.parametrize("how", ["unmasked", "mode", "packing"])
@pytest.mark.parametrize("name", ["sdpa", "flash"])
def test_inductor_holds_it_in_one_graph_for_every_length(name: str, how: str, geometry: Geometry) -> None:
    if (name, how) == ("flash", "mode"):
        pytest.skip("without packing flash looks for the tokens, and its graph breaks")
    attend: Any = make_attention(name, geometry)
    compiled = torch.compile(type(attend).__call__, fullgraph=True, dynamic=True)
    with compilescope.observe() as scope:
        for tokens in (333, 1101):
            inputs = random(geometry, tokens, 2, torch.bfloat16)
            metadata, mask = told(how, (tokens, tokens - 100), tokens)
            error = compiled(attend, *inputs, metadata) - attend(*inputs, metadata)
            assert error[mask].abs().max() < 2e-2
    assert len(scope.recording.compiled) == 1
