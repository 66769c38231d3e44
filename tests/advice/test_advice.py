"""Every sentence of advice was tried: one program it cures, and in one it would be wrong and is not given."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

from compilescope.analysis.sentences import BREAKS, SENTENCES

from . import ambient, breaks, inductor, libraries, numbers, objects, shapes, tensors
from .trial import Trial, eager, seen, trials_in

TRIALS = [
    trial
    for module in (shapes, inductor, tensors, numbers, objects, ambient, breaks, libraries)
    for trial in trials_in(module)
]
CURES = [trial for trial in TRIALS if trial.cures]
WRONG = [trial for trial in TRIALS if not trial.cures]

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def identity(trial: Trial) -> str:
    return f"{trial.sentence}-{trial.name}"


UNTRIED = {
    "shared_code_before_isolation": "for torch before 2.13, which has no isolate_recompiles",
    "lora_scaling": "needs peft, and a model of diffusers",
    "concurrent": "two threads that compile at once do so by chance",
    "guard_error": "names no remedy: it says that the guard's expression is the place to look",
    "unknown": "names no remedy: it asks for a report",
}
"""Sentences without programs, each with the reason."""


@pytest.mark.parametrize("sentence", [sentence for sentence in SENTENCES if sentence not in UNTRIED])
def test_sentence_has_a_program_that_it_cures_and_one_in_which_it_is_wrong(sentence: str) -> None:
    assert sentence in {trial.sentence for trial in CURES}
    assert sentence in {trial.sentence for trial in WRONG}


def test_no_program_is_for_a_sentence_that_does_not_exist() -> None:
    assert {trial.sentence for trial in TRIALS} <= set(SENTENCES)


@pytest.mark.parametrize("trial", CURES, ids=identity)
def test_following_the_sentence_removes_the_trouble_and_changes_no_result(trial: Trial) -> None:
    if not trial.runs_here:
        pytest.skip(f"the program is about torch {'.'.join(map(str, trial.since))} and later")
    before = seen(trial.run, followed=False)
    assert trial.sentence in before.sentences
    after = seen(trial.run, followed=True)
    assert not after.raised
    assert after.recording.compiled
    assert after.recompiles == 0
    assert after.breaks < before.breaks if trial.sentence in BREAKS else after.breaks <= before.breaks
    assert after.harm <= before.harm
    assert_equal(after.outcome, eager(trial.run, followed=True))


@pytest.mark.parametrize("trial", WRONG, ids=identity)
def test_sentence_is_not_given_where_following_it_would_not_help(trial: Trial) -> None:
    before = seen(trial.run, followed=False)
    assert before.recompiles + before.harm > 0
    assert trial.sentence not in before.sentences
    after = seen(trial.run, followed=True)
    assert after.recompiles >= max(before.recompiles, 1) or after.harm > before.harm or after.harm >= before.harm > 0


def assert_equal(one: object, other: object) -> None:
    left, left_form = pytree.tree_flatten(one)
    right, right_form = pytree.tree_flatten(other)
    assert left_form == right_form
    for have, want in zip(left, right, strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(have, want, equal_nan=True)
        else:
            assert have == want
