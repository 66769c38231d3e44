"""A compile test of a real model passed where it should not, and failed where it should not: the marks do neither."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .outcomes import run_pytest

if TYPE_CHECKING:
    from .outcomes import Session

pytest.importorskip("diffusers", reason="the model is built from diffusers' parts")

SUITE = Path(__file__).parent / "suites" / "mammoth_moda2.py"
NEVER = r"CS102  Target TransformerBlock\.forward was never reached; "
EXPECTED = {
    "test_unchanged_count_of_nothing": ("passed", ""),
    "test_unchanged_count_of_nothing_marked": ("failed", NEVER + "nothing was compiled"),
    "test_count_of_something_else": ("passed", ""),
    "test_count_of_something_else_marked": ("failed", NEVER + r"these were compiled: FP32SiLU\.forward"),
    "test_that_ran_before": ("passed", ""),
    "test_count_behind_it": ("failed", "assert 0 >= 1"),
    "test_count_behind_it_marked": ("passed", ""),
    "test_empty_prompt_marked": (
        "failed",
        r"CS203  TransformerBlock\.forward was recompiled once as shapes changed: zero_one",
    ),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Run the suite once, in the order in which it is written."""
    folder = tmp_path_factory.mktemp("stories")
    shutil.copy(SUITE, folder / "test_stories.py")
    return run_pytest(folder, "--strict-markers")


@pytest.mark.parametrize("name", EXPECTED)
def test_story(session: Session, name: str) -> None:
    status, why = EXPECTED[name]
    outcome = session.tests[name]
    assert outcome.status == status, outcome.text
    assert re.search(why, outcome.text), outcome.text


def test_every_story_is_told(session: Session) -> None:
    assert sorted(session.tests) == sorted(EXPECTED)
