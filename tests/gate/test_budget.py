"""Budgets: what they mean, what they refuse, and what a sound run shows."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace

from compilescope.errors import UsageError
from compilescope.gate.baseline import compare
from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge

from .making import BLOCK, STRICT, broken_at, cause, compiled, eager, failed, sound, target


def test_sound_run_keeps_every_limit_at_once() -> None:
    assert judge(sound(), STRICT) == ()


def test_without_limits_a_sound_run_may_recompile_and_break() -> None:
    recording = sound(graph_breaks=(broken_at(),))
    assert judge(recording, Budget()) == ()


def test_judging_changes_nothing_and_says_the_same_again() -> None:
    recording = sound(fallbacks=(eager(),))
    assert judge(recording, STRICT) == judge(recording, STRICT)
    assert recording == sound(fallbacks=(eager(),))


def test_findings_the_run_brought_along_do_not_count() -> None:
    made = judge(sound(fallbacks=(eager(),)), Budget())
    assert judge(sound(findings=made), Budget()) == ()


def test_nothing_is_accepted_where_nothing_was_accepted_before() -> None:
    two = target(compiles=3, codes=(BLOCK.id,))
    bad = sound(
        fallbacks=(eager(),),
        graph_breaks=(broken_at(),),
        compilations=(*sound().compilations, compiled("0/2", BLOCK, cause("size"), guards=50), failed()),
        targets=(two,),
    )
    found = judge(bad, replace(STRICT, min_operators=20, max_relative_l2=None))
    assert {"CS201", "CS202", "CS203", "CS206", "CS302", "CS401", "CS501", "CS502"} <= {one.rule for one in found}
    assert all(one.amount > 0 for one in found)
    assert compare(found, {}).new == found


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"max_compiles": -1}, "The limit max-compiles must be 0 or more, not -1."),
        ({"max_relative_l2": float("nan")}, "The limit max-relative-l2 must be 0 or more, not nan."),
        ({"max_compile_seconds": float("inf")}, "The limit max-compile-seconds must be 0 or more, not inf."),
        ({"max_recompiles_by_kind": {"dtype": -1}}, "The limit dtype must be 0 or more, not -1."),
        ({"max_recompiles_by_kind": {"dtyp": 1}}, "'dtyp' is not a kind of cause. Did you mean dtype"),
        ({"max_own_graph_breaks": 0}, "max-own-graph-breaks needs own"),
    ],
)
def test_budget_that_could_never_find_anything_is_refused(limits: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Budget(**limits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("own", "file", "mine"),
    [
        ("src/pkg", "src/pkg/model.py", True),
        ("./src/pkg/", "src/pkg/deep/model.py", True),
        ("src/pkg", "src/pkg2/model.py", False),
        ("src/pkg/model.py", "src/pkg/model.py", True),
        ("src/[pkg]/model.py", "src/[pkg]/model.py", True),
        ("src/*/model.py", "src/pkg/model.py", True),
        (".", "model.py", True),
        (".", "/elsewhere/model.py", False),
        ("pkg", "src/pkg/model.py", False),
    ],
)
def test_own_code_is_told_by_its_path(own: str, file: str, *, mine: bool) -> None:
    assert Budget(own=(own,)).is_own(file) is mine


@pytest.mark.parametrize(
    ("allowed", "yes"),
    [
        (("stance",), True),
        (("pkg/*",), True),
        (("Block.forward",), True),
        (("forward",), True),
        (("Block.*",), True),
        (("*",), True),
        (("dispatch_mode", "Other.forward"), False),
        ((), False),
    ],
)
def test_fallback_is_allowed_by_kind_or_by_name(allowed: tuple[str, ...], *, yes: bool) -> None:
    budget = Budget(allow_fallbacks=allowed)
    assert budget.allows_fallback("stance", ["Block.forward", "pkg/model.py:Block.forward"]) is yes


def test_judging_imports_neither_torch_nor_pytest() -> None:
    program = (
        "import sys\nimport compilescope.gate.budget, compilescope.gate.baseline, compilescope.gate.budget_settings\n"
        "print([name for name in ('torch', 'pytest') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.strip() == "[]"


def test_what_was_not_seen_comes_before_what_is_over_a_limit() -> None:
    recording = sound(sweeps=(), compilations=(*sound().compilations, compiled("0/2")))
    found = [finding.rule for finding in judge(recording, STRICT)]
    assert found == sorted(found)
    assert found == ["CS117", "CS201"]
