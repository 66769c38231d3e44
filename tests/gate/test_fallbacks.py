"""Eager fallbacks, recompile limits and failed compilations: forbidden unless allowed by name."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge
from compilescope.record import CompileError, FallbackKind

from .making import BLOCK, LIBRARY, compiled, eager, failed, meta, only, rules, sound, target

LIMIT = failed("recompile_limit", outcome="limit", limit=8)


@pytest.mark.parametrize("kind", sorted(get_args(FallbackKind)))
def test_every_kind_of_fallback_is_a_finding_until_it_is_allowed(kind: str) -> None:
    recording = sound(fallbacks=(eager(kind),))
    found = only(recording, Budget())
    assert found.rule == ("CS204" if kind == "recompile_limit" else "CS401")
    assert "Block.forward" in found.message
    assert rules(recording, Budget(allow_fallbacks=(kind,))) == []
    assert rules(recording, Budget(allow_fallbacks=("Block.forward",))) == []
    assert rules(recording, Budget(allow_fallbacks=("something_else",))) == [found.rule]


def test_fallback_says_why_and_how_often() -> None:
    message = only(sound(fallbacks=(eager("stance", calls=1),)), Budget()).message
    assert message == "Block.forward ran eagerly (stance, 1 call): why"
    assert "calls were not counted" in only(sound(fallbacks=(eager(calls=None),)), Budget()).message


def test_fallback_of_code_that_is_no_target_is_a_finding_too() -> None:
    recording = sound(code_objects=(BLOCK, LIBRARY), fallbacks=(eager(code=LIBRARY),))
    assert only(recording, Budget(targets=("Block.forward",))).code == LIBRARY.id


def test_recompile_limit_is_told_once_with_its_eager_calls() -> None:
    refused = sound(compilations=(*sound().compilations, LIMIT), fallbacks=(eager("recompile_limit", calls=21),))
    found = only(refused, Budget())
    assert found.message == "Block.forward hit the recompile limit of 8; 21 calls ran eagerly"
    again = (LIMIT, *sound().compilations, replace(LIMIT, id="0/8"), compiled("1/0", limit=64))
    told = only(sound(compilations=again, targets=(target(compiles=3),)), Budget())
    assert told.message == "Block.forward hit the recompile limit of 8; eager calls were not counted"


def test_recompile_limit_that_raised_is_a_finding() -> None:
    recording = sound(compilations=(*sound().compilations, failed("recompile_limit")), meta=meta(config={}))
    found = only(recording, Budget())
    assert found.rule == "CS204"
    assert found.message == "Block.forward hit the recompile limit; eager calls were not counted"


def test_failed_attempt_that_somebody_caught_is_a_finding() -> None:
    recording = sound(compilations=(*sound().compilations, failed()))
    found = only(recording, Budget())
    assert found.rule == "CS206"
    assert "1 attempt to compile failed (backend_error): BackendCompilerFailed: backend said no" in found.message
    assert rules(recording, Budget(allow_fallbacks=("backend_error",))) == []


@pytest.mark.parametrize(
    ("error", "shown"),
    [("backend_error", "backend_error"), ("user_exception", "user_exception"), ("unsupported", "skipped_frame")],
)
def test_failed_attempt_that_shows_as_a_fallback_is_told_once(error: str, shown: str) -> None:
    recording = sound(compilations=(*sound().compilations, failed(error)), fallbacks=(eager(shown),))
    assert rules(recording, Budget()) == ["CS401"]


def test_failed_attempt_is_not_hidden_by_a_fallback_for_another_reason() -> None:
    recording = sound(compilations=(*sound().compilations, failed("backend_error")), fallbacks=(eager("stance"),))
    assert rules(recording, Budget()) == ["CS401", "CS206"]
    assert rules(recording, Budget(allow_fallbacks=("stance",))) == ["CS206"]


def test_frame_that_was_skipped_without_a_reason_is_a_finding() -> None:
    skipped = failed(outcome="skipped", error=None)
    assert "Dynamo gave no reason" in only(sound(compilations=(*sound().compilations, skipped)), Budget()).message


def test_frame_with_nothing_to_compile_is_none() -> None:
    empty = replace(
        compiled("1/0", LIBRARY), outcome="empty", error=CompileError(kind="unsupported", type="skip", message="")
    )
    assert judge(sound(compilations=(*sound().compilations, empty)), Budget()) == ()


def test_fallback_has_a_key_without_its_count_of_calls() -> None:
    few, many = (only(sound(fallbacks=(eager(calls=n),)), Budget()).key for n in (1, 900))
    assert few == many == "src/pkg/model.py:Block.forward: skipped_frame"
