"""Relations between values are checked by identity, each value written in full."""

from __future__ import annotations

import pytest
import torch

from compilescope.capture import relations
from compilescope.capture.refused_leaf import Frame

FIRST, SECOND = object(), object()
IMAGE, TEXT = torch.ones(2), torch.ones(2)


def scope(**local: object) -> dict[str, object]:
    return {"L": local, "G": {}}


def told(text: str, /, **local: object) -> list[tuple[str, str, str]]:
    return [
        (f.source, f.expected, f.actual) for _, f in relations.relation(text, Frame(scope(**local), scope.__code__))
    ]


def test_key_of_a_dict_that_is_still_the_same_object_is_no_miss() -> None:
    text = "list(dict.keys(L['backends']))[1] is L['active']  # if backend is active:  # a.py:3 in f"
    assert told(text, backends={FIRST: 1, SECOND: 2}, active=SECOND) == []


def test_key_of_a_dict_that_is_another_object_is_told_as_the_key() -> None:
    text = "list(dict.keys(L['backends']))[1] is L['active']"
    ((source, expected, actual),) = told(text, backends={FIRST: 1, SECOND: 2}, active=FIRST)
    assert source == "list(dict.keys(backends))[1], active"
    assert (expected, actual) == ("one object for both", "two objects")


def test_tensors_that_must_differ_are_told_where_they_are_one() -> None:
    text = "check_no_aliasing(L['image'], L['text'])"
    assert told(text, image=IMAGE, text=TEXT) == []
    assert told(text, image=IMAGE, text=IMAGE) == [("image, text", "different tensors", "one tensor for both")]


@pytest.mark.parametrize(
    "text", ["check_overlapping(overlapping=[L['a']])", "no expression at all", "L['gone'] is L['x']"]
)
def test_what_cannot_be_checked_is_left_to_the_last_resort(text: str) -> None:
    assert told(text, a=FIRST, x=FIRST) == []
