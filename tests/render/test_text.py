"""The text report: it fits one screen, is loud where it must be, and never calls clean what was not looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from compilescope.record import AxisSummary, EntryMiss, Failure, Finding, Judgement, Parity, Recompile, Target
from compilescope.render.registry import render
from compilescope.render.text.layout import HEIGHT, WIDTH

if TYPE_CHECKING:
    from compilescope.record import Recording

ALL = ("clean", "flux", "nothing", "limit_hit", "faulty", "big", "hostile")


def text(recording: Recording, **options: object) -> str:
    return render(recording, "text", **options)


def flowing(page: str) -> str:
    """Undo the breaking of lines."""
    return " ".join(page.split())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [None, 60, 140])
def test_any_recording_fits_one_screen(name: str, width: int | None, request: pytest.FixtureRequest) -> None:
    from rich.cells import cell_len

    lines = text(request.getfixturevalue(name), width=width).splitlines()
    assert len(lines) <= HEIGHT
    assert max(map(cell_len, lines)) <= (width or WIDTH)


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("color", [False, True])
def test_no_line_is_a_command_to_the_log_that_it_stands_in(clean: Recording, *, verbose: bool, color: bool) -> None:
    targets = (Target(selector="::error::boom", status="inlined", compiles=0),)
    for length in range(60, 130):
        message = f"{'x' * length}::error::boom {'y' * length}::set-env::z"
        findings = (
            Finding(rule="CS301", code=None, message=message),
            Finding(rule="::add-mask::", code=None, message="m"),
        )
        page = text(msgspec.structs.replace(clean, findings=findings, targets=targets), verbose=verbose, color=color)
        lines = re.sub(r"\x1b\[[\d;]*m", "", page).splitlines()
        assert not [line for line in lines if line.lstrip().startswith("::")]
        assert verbose or max(map(len, lines)) <= WIDTH


def test_flux_tells_each_cause_with_its_line_its_axis_and_its_advice(flux: Recording) -> None:
    page = flowing(text(flux))
    assert (
        "12 compilations of 2 code objects, 10 recompiles (6 shape-driven), 0 graph breaks, 0 eager fallbacks" in page
    )
    assert "0/1 x2 view_base hidden_states: a view of [1, 21, 32] -> no view (no axis changed)" in page
    assert "0/2 x3 zero_one encoder_hidden_states.size()[1]: 0 -> 1, 1 -> 7 (shape-driven; text_len changed)" in page
    assert "transformer_flux.py:441: norm_hidden_states" in page
    assert "would have matched" not in page
    assert (
        "entry 0/1 would have matched if text_len could vary; 0/2 if view_base of hidden_states could vary"
        in flowing(text(flux, verbose=True))
    )
    assert "text_len 0, 1, 7, 77 compiles at 0 and 1 (zero_one); free otherwise" in page
    assert "compilescope explain zero_one" in page


def test_advice_is_given_once(flux: Recording) -> None:
    assert text(flux).count("hint: mark_unbacked on this dimension") == 1


def test_recompiles_with_one_cause_take_one_line(limit_hit: Recording) -> None:
    page = flowing(text(limit_hit))
    assert "0/1 x7 size hidden_states.size()[1]: 16 -> 24, 24 -> 40, 40 -> 56, 4 more" in page


def test_a_cut_report_says_what_is_missing_and_how_to_see_it(big: Recording) -> None:
    page = text(big)
    shown = page.count("  skipped_frame  ")
    assert f"... and {60 - shown} more fallbacks: -v shows all" in page
    assert "more code objects with" in page
    assert "more sites with" in page


@pytest.mark.parametrize(
    "said",
    [
        "!! The workload raised ValueError: bad prompt",
        "!! The recompile limit (8) was hit by FluxTransformerBlock.forward",
        "!! 1 target was never reached, so any claim about it is vacuous: Never.forward.",
        "!! 1 target was skipped by Dynamo and ran eagerly: Skipped.forward.",
        "!! The sweep of flux was interrupted",
        "!! 1 of 2 sweep points raised. First: IndexError: x",
        "?? 1 target was compiled before the recording began, so not recorded: Cached.forward.",
        "?? No guard could be examined for 1 recompile.",
        "?? Runs were not counted, so eager calls were not checked.",
        "unknown whether shape-driven for 2",
        "0 allowed",
        "Norm.forward inlined into FluxTransformerBlock.forward",
    ],
)
def test_every_fault_is_said_even_when_all_come_at_once(faulty: Recording, said: str) -> None:
    assert said in flowing(text(faulty))


def test_the_fullest_report_tells_breaks_fallbacks_errors_and_parity(faulty: Recording) -> None:
    page = flowing(text(faulty, verbose=True))
    assert "transformer_flux.py:702 data_dependent_branch GB0170 9 events, skips its frame if mask is not None" in page
    assert "FluxTransformer2DModel via apply_lora_scale user_exception calls not counted" in page
    assert "failed, backend_error BackendCompilerFailed: backend said no" in page
    assert "resumed after line 702 2 compiled" in page
    assert "unclassified x: 16 -> 24 (not checked whether shape-driven)" in page
    assert "cause unknown: no guard could be examined" in page
    assert "parity with eager: worst relative L2 2.50e-01" in page
    assert "height 3, 5 free (only 1 of 2 values ran)" in page
    assert "batch 1 one value only: not varied" in page
    assert "Traceback boom ValueError" in page
    assert "recompile_limit = 8" in page


@pytest.mark.parametrize("width", [60, 200])
def test_what_was_compiled_how_stands_in_the_head(flux: Recording, width: int) -> None:
    sweeps = tuple(msgspec.structs.replace(sweep, setup="57 x Block by torch.compile()") for sweep in flux.sweeps)
    page = text(msgspec.structs.replace(flux, sweeps=sweeps), width=width)
    assert "\ncompiled: 57 x Block by torch.compile()\n\n" in page


def test_alarms_stand_before_the_verdict(faulty: Recording) -> None:
    lines = text(faulty).splitlines()
    marks = [line[:2] for line in lines[: next(i for i, line in enumerate(lines) if "compilations of" in line)]]
    assert marks == ["!!"] * 6 + ["??"] * 3


def test_nothing_compiled_is_loud_and_counts_nothing(nothing: Recording) -> None:
    page = text(nothing)
    assert page.startswith("!! NOTHING WAS COMPILED")
    assert "0 recompiles" not in page
    assert "0 graph breaks" not in page
    assert "TORCH_COMPILE_DISABLE" in page


def test_uncounted_runs_leave_no_clean_count_of_fallbacks(clean: Recording) -> None:
    blind = msgspec.structs.replace(clean, meta=msgspec.structs.replace(clean.meta, counts_runs=False))
    assert "0 eager fallbacks seen (eager calls were not checked)" in flowing(text(blind))
    assert "not checked" not in text(clean)


def test_consequences_are_told_from_roots(clean: Recording) -> None:
    def failure(source: str, of: str | None) -> Failure:
        return Failure(
            source=source, guard="g", expected="1", actual="2", guard_type="T", kind="stride", consequence_of=of
        )

    entry = EntryMiss(id="0/0", failing=(failure("x.size()[1]", None), failure("x.stride()[0]", "x.size()[1]")))
    changed = msgspec.structs.replace(
        clean.compilations[0], id="0/1", recompile=Recompile(entries=(entry,), closest="0/0", shape_driven=True)
    )
    page = text(msgspec.structs.replace(clean, compilations=(*clean.compilations, changed)), verbose=True)
    assert "entry 0/0: 1 root and 1 consequence" in page
    assert "follows from x.size()[1]: stride  x.stride()[0]: 1 -> 2" in page


def test_change_beside_another_and_its_places_are_said(flux: Recording) -> None:
    odd = flux.compilations[1]
    assert odd.recompile is not None
    first = msgspec.structs.replace(odd.recompile.causes[0], places=66)
    other = msgspec.structs.replace(first, kind="python_int", source="steps", expected="4", actual="5", places=1)
    both = msgspec.structs.replace(odd, recompile=msgspec.structs.replace(odd.recompile, causes=(first, other)))
    page = flowing(text(msgspec.structs.replace(flux, compilations=(flux.compilations[0], both))))
    assert "at 66 places (together with python_int of steps; no axis changed)" in page
    assert "python_int steps: 4 -> 5 (together with view_base of hidden_states" in page


def test_attempt_that_was_refused_shows_what_would_have_compiled_it(flux: Recording) -> None:
    refused = msgspec.structs.replace(flux.compilations[1], outcome="refused", raised=True)
    page = flowing(text(msgspec.structs.replace(flux, compilations=(flux.compilations[0], refused))))
    assert "0/1 view_base hidden_states: a view of [1, 21, 32] -> no view (refused; no axis changed)" in page


def test_user_text_is_neither_markup_nor_terminal_control(hostile: Recording) -> None:
    for verbose in (False, True):
        page = text(hostile, verbose=verbose, color=False)
        assert "[red]d[/red]" in page
        assert "\x1b" not in page
        assert "\u202e" not in page


def test_color_is_written_only_on_request(flux: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" not in text(flux)
    monkeypatch.setenv("NO_COLOR", "1")
    colored = text(flux, color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == text(flux)


def test_a_result_that_is_not_a_number_is_the_worst(flux: Recording) -> None:
    sweep = flux.sweeps[0]
    fine = Parity(max_abs=0.1, relative_l2=0.2, psnr=40.0, bitwise=False)
    broken = Parity(max_abs=float("nan"), relative_l2=float("nan"), psnr=None, bitwise=False)
    points = (
        msgspec.structs.replace(sweep.points[0], parity=broken),
        *(msgspec.structs.replace(point, parity=fine) for point in sweep.points[1:]),
    )
    page = flowing(text(msgspec.structs.replace(flux, sweeps=(msgspec.structs.replace(sweep, points=points),))))
    assert "worst relative L2 nan at height=3, text_len=0, max abs nan, PSNR 40.0 dB" in page
    assert "NOT FINITE" in page


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (AxisSummary(free=True, compiles_at=(), because=()), "height 3, 5, 7, 6 free"),
        (
            AxisSummary(free=False, compiles_at=(5, 7), because=("size", "stride")),
            "compiles at 2 of 4 values: 5, 7 (size, stride)",
        ),
        (
            AxisSummary(free=False, compiles_at=(1,), because=("zero_one",), free_except=(1,)),
            "compiles at 1 (zero_one); free otherwise",
        ),
    ],
)
def test_each_axis_has_its_line(flux: Recording, summary: AxisSummary, said: str) -> None:
    sweep = msgspec.structs.replace(flux.sweeps[0], summary={"height": summary})
    page = flowing(text(msgspec.structs.replace(flux, sweeps=(sweep,))))
    assert said in page
    assert "text_len 0, 1, 7, 77 not checked" in page


def test_paths_are_cut_between_folders(faulty: Recording) -> None:
    assert ".../transformers/transformer_flux.py:702" in text(faulty)


def test_what_a_baseline_accepts_leaves_room_for_what_it_does_not(clean: Recording) -> None:
    known = tuple(Finding(rule="CS301", code=None, message=f"break {n}") for n in range(60))
    judged = msgspec.structs.replace(clean, judgement=Judgement(baseline="b.json", accepted=known))
    page = text(judged)
    assert page.startswith("passed: no new findings; 60 accepted\n")
    assert "... and 56 more accepted findings: -v shows all" in page
    assert "break 59" not in page
    assert "break 59" in text(judged, verbose=True)


@pytest.mark.parametrize("width", range(60, 201, 20))
@pytest.mark.parametrize("words", [5, 60])
def test_hint_is_given_whole_or_not_at_all(limit_hit: Recording, width: int, words: int) -> None:
    advice = " ".join(f"word{n}" for n in range(words))
    again = msgspec.json.decode(
        msgspec.json.encode(limit_hit).replace(b"advice for size", advice.encode()), type=type(limit_hit)
    )
    page = flowing(text(again, width=width))
    assert f"hint: {advice}" in page
    many = msgspec.json.decode(
        msgspec.json.encode(limit_hit).replace(b"advice for size", b"word " * 3000), type=type(limit_hit)
    )
    assert "hint:" not in text(many, width=width)
    assert "with what helps" in flowing(text(many, width=width))
