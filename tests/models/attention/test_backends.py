"""Backends agree with one another and with attention written out in float64; what they are told spares a look."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

import pytest

import compilescope

diffusers = pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

if TYPE_CHECKING:
    import torch

    from models.attention import Backend, Geometry

HEADS, HEAD_DIM, BATCH = 6, 8, 2
NAMES = ("sdpa", "flash", "flash_opaque")


def geometry(kv_heads: int = 2) -> Geometry:
    from models.attention import Geometry

    return Geometry(HEADS, kv_heads, HEAD_DIM)


def backend(name: str, kv_heads: int = 2) -> Backend:
    from models.attention import make_attention

    return make_attention(name, geometry(kv_heads))


def heads(tokens: int, count: int, seed: int, batch: int = BATCH) -> torch.Tensor:
    import torch

    return torch.randn(batch, tokens, count, HEAD_DIM, generator=torch.Generator().manual_seed(seed))


def written_out(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Attend in float64 with every key-value head repeated and every score in memory."""
    group = query.shape[2] // key.shape[2]
    q, k, v = query.double(), key.double().repeat_interleave(group, 2), value.double().repeat_interleave(group, 2)
    scores = (q.transpose(1, 2) @ k.permute(0, 2, 3, 1)) * HEAD_DIM**-0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None], -float("inf"))
    return (scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2)


def padding(lengths: tuple[int, ...], padded: int) -> torch.Tensor:
    import torch

    return torch.arange(padded) < torch.tensor(lengths)[:, None]


def close(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    import torch

    return torch.allclose(actual.double(), expected.double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "kv_heads"), list(itertools.product(NAMES, (1, 2, 6))))
@pytest.mark.parametrize("tokens", [1, 5, 37])
def test_unmasked_attention_is_the_written_out_one(name: str, kv_heads: int, tokens: int) -> None:
    query, key, value = heads(tokens, HEADS, 1), heads(tokens, kv_heads, 2), heads(tokens, kv_heads, 3)
    out = backend(name, kv_heads)(query, key, value)
    assert out.shape == query.shape
    assert close(out, written_out(query, key, value))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lengths", [(7, 7), (7, 3), (1, 7), (2, 5)])
@pytest.mark.parametrize("told", ["mode", "packing", "nothing"])
def test_masked_attention_is_the_written_out_one_on_true_rows(name: str, lengths: tuple[int, ...], told: str) -> None:
    from models.attention import AttentionMetadata, Packing

    mask = padding(lengths, 7)
    query, key, value = heads(7, HEADS, 1), heads(7, 2, 2), heads(7, 2, 3)
    packing = Packing.of(lengths, 7, mask.device) if told == "packing" else None
    out = backend(name)(query, key, value, AttentionMetadata(mask, None if told == "nothing" else "padding", packing))
    assert close(out[mask], written_out(query, key, value, mask)[mask])


@pytest.mark.parametrize("told", ["mode", "packing", "nothing"])
def test_flash_leaves_zeros_in_masked_rows(told: str) -> None:
    from models.attention import AttentionMetadata, Packing

    lengths = (5, 2)
    mask = padding(lengths, 6)
    packing = Packing.of(lengths, 6, mask.device) if told == "packing" else None
    metadata = AttentionMetadata(mask, None if told == "nothing" else "padding", packing)
    out = backend("flash")(heads(6, HEADS, 1), heads(6, 2, 2), heads(6, 2, 3), metadata)
    assert not out[~mask].any()
    assert out[mask].all()


@pytest.mark.parametrize("name", NAMES)
def test_keys_of_another_length_are_masked_alike(name: str) -> None:
    from models.attention import AttentionMetadata

    mask = padding((9, 4), 9)
    query, key, value = heads(5, HEADS, 1), heads(9, 2, 2), heads(9, 2, 3)
    out = backend(name)(query, key, value, AttentionMetadata(mask, "padding"))
    assert close(out, written_out(query, key, value, mask))


@pytest.mark.parametrize(("name", "mode"), list(itertools.product(NAMES, ("none", None))))
def test_mask_that_masks_nothing_is_no_mask(name: str, mode: Any) -> None:
    from models.attention import AttentionMetadata

    query, key, value = heads(5, HEADS, 1), heads(5, 2, 2), heads(5, 2, 3)
    masked = backend(name)(query, key, value, AttentionMetadata(padding((5, 5), 5), mode))
    assert close(masked, backend(name)(query, key, value))


def test_arbitrary_mask_reaches_sdpa_and_is_refused_by_flash() -> None:
    import torch

    from models.attention import AttentionMetadata

    causal = torch.ones(5, 5, dtype=torch.bool).tril()[None, None].expand(BATCH, 1, 5, 5)
    query, key, value = heads(5, HEADS, 1), heads(5, 6, 2), heads(5, 6, 3)
    metadata = AttentionMetadata(causal, "arbitrary")
    out = backend("sdpa", 6)(query, key, value, metadata)
    assert close(out[:, 0], value[:, 0])
    with pytest.raises(ValueError, match=r"flash attention masks padding, \[batch, keys\]; got a mask of shape"):
        backend("flash", 6)(query, key, value, metadata)


@pytest.mark.parametrize("queries", [0, 4])
@pytest.mark.parametrize("name", ["flash", "flash_opaque"])
def test_query_without_tokens_has_an_empty_answer(name: str, queries: int) -> None:
    """A range of boundaries in steps of the query's length raises at 0: that is what these must not do."""
    out = backend(name)(heads(queries, HEADS, 1), heads(4, 2, 2), heads(4, 2, 3))
    assert out.shape == (BATCH, queries, HEADS, HEAD_DIM)


def test_groups_are_expanded_where_no_kernel_takes_them_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    from models.attention import SdpaAttention

    query, key, value = heads(5, HEADS, 1), heads(5, 2, 2), heads(5, 2, 3)
    caplog.set_level(logging.DEBUG, "models.attention.sdpa")
    expanded = SdpaAttention(geometry(), native_groups=False)(query, key, value)
    assert close(expanded, written_out(query, key, value))
    assert [record.getMessage() for record in caplog.records] == [
        "no fused kernel takes grouped heads here; repeating each 3 times"
    ]


@pytest.mark.usefixtures("fresh_dynamo")
def test_expansion_is_traced_whole_and_silent() -> None:
    import torch

    from models.attention import SdpaAttention

    attend = SdpaAttention(geometry(), native_groups=False)
    compiled = torch.compile(attend.__call__, backend="eager", fullgraph=True, dynamic=True)
    inputs = heads(5, HEADS, 1), heads(5, 2, 2), heads(5, 2, 3)
    assert close(compiled(*inputs), attend(*inputs))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("name", ["sdpa", "flash"])
def test_backend_is_traced_whole_for_any_grouping(name: str, kv_heads: int) -> None:
    """Under ``dynamic=True`` Dynamo takes the ints of a plain object for symbols, the numbers of heads too."""
    import torch

    attend = backend(name, kv_heads)
    compiled = torch.compile(type(attend).__call__, backend="eager", fullgraph=True, dynamic=True)
    for tokens in (5, 7):
        inputs = heads(tokens, HEADS, 1), heads(tokens, kv_heads, 2), heads(tokens, kv_heads, 3)
        assert close(compiled(attend, *inputs), attend(*inputs))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("name", "mode", "kind"),
    [
        ("flash", "none", None),
        ("flash", "padding", None),
        ("flash", None, "data_dependent_branch"),
        ("flash_opaque", "none", "no_fake_kernel"),
    ],
)
def test_graph_breaks_where_the_mask_is_asked_or_the_op_has_no_fake(name: str, mode: Any, kind: str | None) -> None:
    import torch

    from models.attention import AttentionMetadata, Packing

    mask = padding((5, 5), 5)
    packing = Packing.of((5, 5), 5, mask.device) if mode == "padding" else None
    attend = backend(name)
    compiled = torch.compile(type(attend).__call__, backend="eager", dynamic=True)
    with compilescope.observe() as scope:
        compiled(attend, heads(5, HEADS, 1), heads(5, 2, 2), heads(5, 2, 3), AttentionMetadata(mask, mode, packing))
    assert {site.kind for site in scope.recording.graph_breaks} == ({kind} if kind else set())


def test_unknown_backend_is_named() -> None:
    from models.attention import make_attention

    with pytest.raises(ValueError, match="attention backend 'xformers' is none of sdpa, flash, flash_opaque"):
        make_attention("xformers", geometry())


def test_heads_that_cannot_be_grouped_are_refused() -> None:
    with pytest.raises(ValueError, match="6 query heads cannot share 4 key-value heads evenly"):
        geometry(4)
