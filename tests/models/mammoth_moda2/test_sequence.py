"""What the model says about its masks, and how unequal samples become one batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.attention import AttentionMetadata  # noqa: E402 (behind the skips)
from models.mammoth_moda2.sequence import pad_rows, publish_mask, text_lengths  # noqa: E402

CPU = torch.device("cpu")
LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(LENGTHS, st.integers(0, 2))
def test_auto_says_none_exactly_where_nothing_is_padding(lengths: list[int], extra: int) -> None:
    padded = max(lengths) + extra
    told = publish_mask(lengths, padded, CPU, publishing="auto", packing=False)
    assert isinstance(told, AttentionMetadata)
    assert told.mode == ("none" if set(lengths) == {padded} else "padding")
    if told.mode == "padding":
        assert told.mask is not None
        assert told.mask.sum(1).tolist() == lengths


def test_padding_says_so_even_where_nothing_is() -> None:
    told = publish_mask([3, 3], 3, CPU, publishing="padding", packing=True)
    assert isinstance(told, AttentionMetadata)
    assert told.mode == "padding"
    assert told.packing is not None
    assert told.packing.indices.tolist() == list(range(6))


def test_unknown_hands_over_a_bare_mask() -> None:
    told = publish_mask([3, 1], 3, CPU, publishing="unknown", packing=True)
    assert isinstance(told, torch.Tensor)
    assert told.tolist() == [[True, True, True], [True, False, False]]


@given(LENGTHS)
def test_padded_rows_stand_in_front_and_zeros_behind(lengths: list[int]) -> None:
    rows = [torch.full((length, 2), float(index + 1)) for index, length in enumerate(lengths)]
    out = pad_rows(rows, max(lengths))
    for index, length in enumerate(lengths):
        assert (out[index, :length] == index + 1).all()
        assert not out[index, length:].any()
    assert out._base is None


def test_lengths_come_from_the_mask_or_are_all_the_same() -> None:
    text = torch.zeros(2, 4, 1)
    assert text_lengths(text, None) == [4, 4]
    assert text_lengths(text, torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])) == [3, 1]
