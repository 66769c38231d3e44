"""What to do next fits what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from compilescope.record import Fallback, Finding, Run
from compilescope.render.next_steps import next_steps
from compilescope.render.options import Options
from compilescope.render.registry import render

from .conftest import meta

if TYPE_CHECKING:
    from compilescope.record import Recording


def after(recording: Recording, run: Run) -> str:
    return next_steps(msgspec.structs.replace(recording, meta=meta(run=run)), Options())[0]


def test_script_that_raised(clean: Recording) -> None:
    assert after(clean, Run(status="raised", error="ValueError: bad (a.py, line 5)")) == (
        "fix ValueError: bad (a.py, line 5)"
    )


def test_long_error_keeps_its_kind_and_its_line(clean: Recording) -> None:
    step = after(clean, Run(status="raised", error=f"ValueError: {'long ' * 200}(a.py, line 5)"))
    assert step.startswith("fix ValueError: long")
    assert step.endswith("(a.py, line 5)")
    assert len(step) < 200


def test_script_that_raised_before_anything_was_compiled(nothing: Recording) -> None:
    assert after(nothing, Run(status="raised", error="ValueError: bad")) == (
        "fix ValueError: bad, which came before anything was compiled"
    )


def test_script_that_dies_at_import(nothing: Recording) -> None:
    missing = "ModuleNotFoundError: No module named 'diffusers' (a.py, line 1)"
    assert after(nothing, Run(status="raised", error=missing)).startswith(f"fix the import: {missing}. ")


def test_import_that_fails_later_is_an_error_like_another(clean: Recording) -> None:
    assert after(clean, Run(status="raised", error="ImportError: late")) == "fix ImportError: late"


@pytest.mark.parametrize(
    ("run", "step"),
    [
        (Run(status="interrupted"), "run it to its end"),
        (Run(status="exited", exit_code=3), "see why it ends with exit code 3"),
        (Run(status="exited", exit_code=0), "-v for all"),
        (Run(status="ok"), "-v for all"),
    ],
)
def test_other_ends(clean: Recording, run: Run, step: str) -> None:
    assert after(clean, run).startswith(step)


def test_script_that_never_calls_what_it_compiles(nothing: Recording) -> None:
    steps = next_steps(nothing, Options())
    assert steps[0].startswith("call what torch.compile returned, within this run")
    assert "TORCH_COMPILE_DISABLE" in steps[1]


def test_workload_that_compiles_nothing(nothing: Recording, flux: Recording) -> None:
    swept = msgspec.structs.replace(nothing, sweeps=flux.sweeps)
    assert next_steps(swept, Options())[0] == "let what the factory returns call the compiled callable"


def test_words_of_the_report_are_explained(clean: Recording, flux: Recording) -> None:
    assert next_steps(flux, Options())[1:] == ("compilescope explain zero_one", "compilescope explain view_base")
    eager = Fallback(code="f", kind="stance", calls=1, detail="d")
    assert next_steps(msgspec.structs.replace(clean, fallbacks=(eager,)), Options(verbose=True)) == (
        "compilescope explain stance",
    )
    failed = msgspec.structs.replace(clean, findings=(Finding(rule="CS301", code=None, message="m"),))
    assert next_steps(failed, Options(verbose=True)) == ("compilescope explain CS301",)


def test_clean_run_needs_nothing_that_is_not_on_the_page_already(clean: Recording) -> None:
    assert next_steps(clean, Options(verbose=True)) == ()


def test_hints_that_have_no_room_are_announced(big: Recording) -> None:
    page = render(big, "text")
    assert "hint: " not in page
    assert "-v for all, with what helps" in page
