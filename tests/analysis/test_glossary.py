"""Every word that a recording can hold is in the glossary, in its family."""

from __future__ import annotations

import ast
import inspect
from typing import get_args, get_type_hints

import pytest

from compilescope.analysis import breaks
from compilescope.analysis.glossary import (
    ALARM,
    BREAK,
    ENDING,
    ERROR,
    FALLBACK,
    FAMILIES,
    OUTCOME,
    OUTCOMES,
    TARGET,
    WORDS,
    words_called,
)
from compilescope.analysis.kinds import KINDS
from compilescope.capture import _torch_errors
from compilescope.record import FallbackKind, Outcome, Run, SweepPoint, TargetStatus


def named(family: str) -> set[str]:
    return {word.name for word in WORDS if word.family == family}


def returned_by(*functions: object) -> set[str]:
    """Return the texts that functions return."""
    trees = (ast.parse(inspect.getsource(function)) for function in functions)  # type: ignore[arg-type]
    results = (step.value for tree in trees for step in ast.walk(tree) if isinstance(step, ast.Return) and step.value)
    constants = (part for result in results for part in ast.walk(result) if isinstance(part, ast.Constant))
    return {constant.value for constant in constants if isinstance(constant.value, str)}


def test_outcomes() -> None:
    assert named(OUTCOME) == set(OUTCOMES) == set(get_args(Outcome))


def test_fallbacks() -> None:
    assert named(FALLBACK) == set(get_args(FallbackKind))


def test_targets() -> None:
    assert named(TARGET) == set(get_args(TargetStatus))


def test_endings() -> None:
    assert named(ENDING) == {*get_args(get_type_hints(Run)["status"]), *get_args(get_type_hints(SweepPoint)["status"])}


def test_breaks() -> None:
    rules = (*breaks._ANYWHERE, *breaks._TITLES)
    assert named(BREAK) == {kind for kind, _ in rules} | {breaks.kind_of("whatever")}


def test_errors() -> None:
    assert named(ERROR) == returned_by(_torch_errors.error_kind, _torch_errors._operator_kind)


def test_alarms_that_no_other_word_explains() -> None:
    assert all(len(words_called(name)) == 1 for name in named(ALARM))


def test_a_word_stands_once_in_a_family() -> None:
    forms = [(word.family, form) for word in WORDS for form in word.forms]
    assert len(set(forms)) == len(forms)
    assert {word.family for word in WORDS} == set(FAMILIES)


@pytest.mark.parametrize("printed", ["never reached", "Never-Reached", " never_reached "])
def test_spelling_is_forgiven(printed: str) -> None:
    (word,) = words_called(printed)
    assert word.name == "never_reached"


def test_no_word_hides_a_kind_of_cause() -> None:
    assert [name for name in KINDS if words_called(name)] == []
