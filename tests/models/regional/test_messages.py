"""What was compiled is logged, and what was not is warned of or refused, in a sentence."""

from __future__ import annotations

import logging

import pytest
import torch

from models.regional import regionally_compile

from .making import Calls, build


@pytest.mark.parametrize("declared", [None, [], ()], ids=repr)
def test_a_model_that_declares_no_blocks_is_warned_of_or_refused(
    caplog: pytest.LogCaptureFixture, calls: Calls, declared: object
) -> None:
    sentence = "Regional compilation skipped because the model does not define `_repeated_blocks`."
    model = build()
    model._repeated_blocks = declared

    assert regionally_compile(model) == 0
    assert caplog.record_tuples == [("models.regional", logging.WARNING, sentence)]
    with pytest.raises(ValueError, match=r"^Regional compilation skipped because the model does not define") as caught:
        regionally_compile(model, strict=True)
    assert str(caught.value) == sentence
    assert calls.kwargs == []


def test_a_model_without_the_attribute_is_warned_of(caplog: pytest.LogCaptureFixture, calls: Calls) -> None:
    assert regionally_compile(torch.nn.Linear(4, 4)) == 0
    assert "does not define `_repeated_blocks`" in caplog.text


def test_blocks_that_are_not_found_are_warned_of_or_refused(caplog: pytest.LogCaptureFixture, calls: Calls) -> None:
    sentence = "Regional compilation skipped because ['Absent', 'Gone'] classes are not found in the model."
    model = build()
    model._repeated_blocks = ["Absent", "Gone"]

    assert regionally_compile(model) == 0
    assert caplog.record_tuples == [("models.regional", logging.WARNING, sentence)]
    with pytest.raises(ValueError, match="classes are not found in the model") as caught:
        regionally_compile(model, strict=True)
    assert str(caught.value) == sentence


def test_what_was_compiled_is_logged(caplog: pytest.LogCaptureFixture, calls: Calls) -> None:
    caplog.set_level(logging.INFO, logger="models.regional")
    regionally_compile(build(), strict=True)

    sentence = "Regional compilation applied to 5 module(s) for repeated blocks ['Block', 'Single']."
    assert caplog.record_tuples == [("models.regional", logging.INFO, sentence)]
