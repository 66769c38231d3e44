"""`compilescope check` over saved recordings: options, settings, baseline, exit codes, and what goes where."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from compilescope.cli import main
from compilescope.commands import output
from compilescope.errors import RecordingError
from compilescope.gate.baseline import read, update, write
from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge
from compilescope.record import Recording, Run, Target
from compilescope.render.registry import render
from compilescope.storage import load, save, to_json

from .gate.making import BLOCK, broken_at, cause, compiled, eager, meta, sound, target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Check = Callable[..., Result]

ACCEPT = "To accept: "


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Save a recording as run.json in an empty working directory and check it."""
    monkeypatch.chdir(tmp_path)

    def run(recording: Recording, *arguments: str) -> Result:
        save(recording, tmp_path / "run.json")
        return CliRunner().invoke(main, ["check", "run.json", *arguments], catch_exceptions=False)

    return run


def broken() -> Recording:
    return sound(graph_breaks=(broken_at(), broken_at(line=50, text="print(x)", kind="print")))


def found(path: Path) -> list[str]:
    return [finding.rule for finding in load(path).findings]


def test_sound_run_passes(check: Check) -> None:
    ended = check(sound())
    assert ended.exit_code == 0
    assert ended.stderr.endswith("compilescope check: passed\n")
    assert "2 compilations of 1 code object" in ended.stdout


def test_report_begins_with_the_verdict(check: Check, tmp_path: Path) -> None:
    assert check(sound()).stdout.startswith("passed: no findings\n")
    assert check(broken(), "--max-graph-breaks", "1").stdout.startswith("FAILED: 2 findings\n")
    page = check(broken(), "--max-graph-breaks", "1", "--format", "markdown", "--save", "judged.json").stdout
    assert page.startswith("## compilescope: FAILED\n\n**FAILED**: 2 findings.\n")
    assert render(load(tmp_path / "judged.json"), "text").startswith("FAILED: 2 findings\n")


def test_findings_fail_and_stand_at_the_top_of_the_report(check: Check) -> None:
    ended = check(broken(), "--max-graph-breaks", "1")
    assert ended.exit_code == 1
    assert ended.stdout.index("Findings") < ended.stdout.index("Code objects")
    assert ended.stdout.count("  CS301  ") == 2
    assert "compilescope check: 2 findings" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--max-compiles", "1"], "CS201"),
        (["--max-recompiles", "0"], "CS202"),
        (["--max-recompiles-of", "module_type=0"], "CS205"),
        (["--max-guards", "39"], "CS502"),
        (["--min-operators", "7"], "CS501"),
        (["--max-seconds", "0.5"], "CS503"),
        (["--target", "Gone.forward"], "CS106"),
        (["--max-own-graph-breaks", "0", "--own", "elsewhere"], "CS108"),
    ],
)
def test_every_limit_has_an_option(check: Check, tmp_path: Path, arguments: list[str], rule: str) -> None:
    ended = check(sound(), *arguments, "--save", "judged.json")
    assert ended.exit_code == 1
    assert found(tmp_path / "judged.json") == [rule]


def test_shape_recompiles_have_an_option(check: Check) -> None:
    recording = sound(compilations=(compiled("0/0"), compiled("0/1", BLOCK, cause("size"))))
    assert check(recording).exit_code == 0
    assert "CS203" in check(recording, "--no-shape-recompile").stdout


def test_distance_from_eager_has_an_option(check: Check) -> None:
    assert check(sound(), "--max-relative-l2", "0.0").exit_code == 0
    assert "CS117" in check(sound(sweeps=()), "--max-relative-l2", "0.0").stdout


def test_allowances_have_options(check: Check) -> None:
    gone = Target(selector="Gone.forward", status="never_reached", compiles=0)
    unknown = compiled("0/2", BLOCK, cause("unknown"))
    recording = sound(
        targets=(target(), gone), fallbacks=(eager("stance"),), compilations=(*sound().compilations, unknown)
    )
    assert check(recording).exit_code == 1
    allowances = ("--allow-uncompiled", "Gone.*", "--allow-fallback", "stance", "--allow-unknown")
    assert check(recording, *allowances).exit_code == 0
    for left_out in (allowances[:2], allowances[2:4], allowances[4:]):
        assert check(recording, *(word for word in allowances if word not in left_out)).exit_code == 1


def test_kinds_with_limits_of_their_own(check: Check) -> None:
    assert check(sound(), "--max-recompiles", "0", "--max-recompiles-of", "module_type=1").exit_code == 0


def test_settings_are_limits_and_options_take_their_place(check: Check, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.compilescope.budget]\nmax-graph-breaks = 0\n")
    assert check(broken()).exit_code == 1
    assert check(broken(), "--max-graph-breaks", "2").exit_code == 0


def test_setting_can_be_switched_off(check: Check, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.compilescope.budget]\nno-shape-recompile = true\n")
    recording = sound(compilations=(compiled("0/0"), compiled("0/1", BLOCK, cause("size"))))
    assert check(recording).exit_code == 1
    assert check(recording, "--shape-recompile").exit_code == 0


def test_targets_of_the_project_are_looked_up_in_a_saved_recording(check: Check, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.compilescope]\ntargets = ['Block.forward', 'Gone.forward']\n")
    assert "CS106" in check(sound()).stdout
    assert check(sound(), "--target", "Block.forward").exit_code == 0


def test_targets_of_the_budget_are_all_that_it_speaks_of(check: Check, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.compilescope.budget]\ntargets = 'Block.forward'\n")
    gone = Target(selector="Gone.forward", status="never_reached", compiles=0)
    assert check(sound(targets=(target(), gone))).exit_code == 0


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (Run(status="raised", error="ValueError: bad"), 2),
        (Run(status="exited", exit_code=3), 2),
        (Run(status="interrupted"), 130),
        (Run(status="interrupted", exit_code=143), 143),
        (Run(status="exited", exit_code=0), 0),
    ],
)
def test_crash_is_told_from_a_regression_by_the_exit_code(check: Check, run: Run, code: int) -> None:
    assert check(sound(meta=meta(run=run))).exit_code == code


def test_crash_is_a_finding_too(check: Check, tmp_path: Path) -> None:
    check(sound(meta=meta(run=Run(status="raised", error="ValueError: bad"))), "--save", "judged.json")
    assert found(tmp_path / "judged.json") == ["CS110"]


def test_findings_of_an_earlier_check_are_replaced(check: Check, tmp_path: Path) -> None:
    recording = broken()
    recording = sound(graph_breaks=recording.graph_breaks, findings=judge(recording, Budget(max_graph_breaks=0)))
    assert check(recording, "--save", "judged.json").exit_code == 0
    assert found(tmp_path / "judged.json") == []


def test_check_and_judge_agree(check: Check, tmp_path: Path) -> None:
    check(broken(), "--max-graph-breaks", "0", "--max-recompiles", "0", "--save", "judged.json")
    expected = judge(broken(), Budget(max_graph_breaks=0, max_recompiles=0))
    assert load(tmp_path / "judged.json").findings == expected


def test_several_formats_at_once(check: Check, tmp_path: Path) -> None:
    files = {"github": "a.txt", "sarif": "a.sarif", "junit": "a.xml", "gitlab": "a.json", "markdown": "a.md"}
    formats = [word for name, file in files.items() for word in ("--format", f"{name}:{file}")]
    ended = check(broken(), "--max-graph-breaks", "0", *formats)
    assert (ended.exit_code, ended.stdout) == (1, "")
    for file in files.values():
        assert "CS301" in (tmp_path / file).read_text()


def test_report_that_could_not_be_written_is_no_pass(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        message = "the disk is full."
        raise RecordingError(message)

    monkeypatch.setattr(output, "write_atomically", fail)
    ended = check(sound(), "--format", "sarif:a.sarif")
    assert ended.exit_code == 2
    assert "error: the disk is full." in ended.stderr


def test_quiet_says_nothing_but_the_report(check: Check) -> None:
    assert check(broken(), "--max-graph-breaks", "0", "-q").stderr == ""


@pytest.mark.parametrize("text", ["", "{", '{"x": 1}', "[]", "null"])
def test_file_that_is_no_recording(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    ended = CliRunner().invoke(main, ["check", str(tmp_path / "run.json")])
    assert ended.exit_code == 2
    assert ended.stderr.startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--max-graph-breaks", "-1"], "The limit max-graph-breaks must be 0 or more, not -1."),
        (["--max-graph-breaks", "few"], "is not a valid integer"),
        (["--max-seconds", "nan"], "The limit max-compile-seconds must be 0 or more, not nan."),
        (["--max-recompiles-of", "dtype"], "--max-recompiles-of 'dtype' is not of the form NAME=VALUE."),
        (["--max-recompiles-of", "dtype=x"], "--max-recompiles-of 'dtype=x' needs a whole number"),
        (["--max-recompiles-of", "dtyp=1"], "'dtyp' is not a kind of cause. Did you mean dtype"),
        (["--max-own-graph-breaks", "0"], "max-own-graph-breaks needs own"),
        (["--own", "src"], "--own does nothing without --max-own-graph-breaks."),
        (["--update-baseline"], "--update-baseline needs --baseline FILE"),
        (["--update-new-only"], "--update-new-only needs --baseline FILE"),
        (["--strict"], "--strict needs --baseline FILE"),
        (["--baseline", "b", "--update-baseline", "--update-new-only"], "exclude each other"),
        (["--baseline", "nowhere/b.json", "--update-baseline"], "The folder nowhere does not exist."),
        (["--baseline", "run.json", "--update-baseline"], "run.json is not a compilescope baseline"),
        (["--baseline", "b", "--update-baseline", "--format", "json:b"], "b is the baseline: give the report another"),
        (["--baseline", "b", "--update-baseline", "-o", "./b"], "b is the baseline: give the report another"),
        (["--baseline", "./b", "--update-baseline", "--save", "b"], "b is the baseline: give the report another"),
        (["--no-count-runs"], "--count-runs cannot be used with run.json"),
        (["--sweep", "a=1"], "--sweep cannot be used with run.json"),
        (["--exit-zero"], "No such option"),
    ],
)
def test_wrong_option_is_told(check: Check, arguments: list[str], sentence: str) -> None:
    ended = check(sound(), *arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert sentence in ended.stderr


def test_missing_baseline_is_an_error_that_tells_how_to_begin_one(check: Check, tmp_path: Path) -> None:
    ended = check(broken(), "--max-graph-breaks", "0", "--baseline", "b.json")
    assert ended.exit_code == 2
    assert "The baseline b.json does not exist. To create it: compilescope check --update-baseline" in ended.stderr
    assert not (tmp_path / "b.json").exists()


def accepted_by(command: str) -> Result:
    """Run a command that was printed, as a shell would."""
    program, *arguments = shlex.split(command)
    assert program == "compilescope"
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.mark.parametrize("baseline", [(), ("--baseline", "my baseline.json")])
def test_printed_command_accepts_what_was_found_and_nothing_more(check: Check, baseline: tuple[str, ...]) -> None:
    limits = ("--max-graph-breaks", "0", *baseline)
    first = check(broken(), *limits)
    printed = first.stderr.splitlines()[-1].partition("To accept: " if not baseline else "To create it: ")[2]
    assert accepted_by(printed).exit_code == 0
    limits = limits if baseline else (*limits, "--baseline", "compilescope-baseline.json")
    again = check(broken(), *limits)
    assert again.exit_code == 0
    assert "2 findings accepted by" in again.stderr
    more = check(sound(graph_breaks=(*broken().graph_breaks, broken_at(line=60, text="x.item()"))), *limits)
    assert more.exit_code == 1
    assert more.stdout.startswith("FAILED: 1 finding that ")
    assert "x.item()" in more.stdout[: more.stdout.index("Accepted by")], "the new one alone"


@pytest.fixture
def accepted(check: Check, tmp_path: Path) -> Path:
    """A baseline that accepts both graph breaks."""
    check(broken(), "--max-graph-breaks", "0", "--baseline", "b.json", "--update-baseline")
    return tmp_path / "b.json"


WITH_BASELINE = ("--max-graph-breaks", "0", "--baseline", "b.json")


def test_check_never_writes_the_baseline_unasked(check: Check, accepted: Path) -> None:
    before = accepted.read_bytes()
    for recording in (broken(), sound(), sound(graph_breaks=(broken_at(text="x.item()"),))):
        for strict in ((), ("--strict",)):
            check(recording, *WITH_BASELINE, *strict)
    assert accepted.read_bytes() == before


def test_moved_lines_change_nothing(check: Check, accepted: Path) -> None:
    moved = sound(
        graph_breaks=tuple(broken_at(line=b.line + 100, text=b.text, kind=b.kind) for b in broken().graph_breaks)
    )
    assert check(moved, *WITH_BASELINE, "--strict").exit_code == 0
    before = accepted.read_bytes()
    check(moved, *WITH_BASELINE, "--update-baseline")
    assert accepted.read_bytes() == before


def test_fixed_findings_are_pointed_out_and_fail_when_strict(check: Check, accepted: Path) -> None:
    one_left = sound(graph_breaks=broken().graph_breaks[:1])
    ended = check(one_left, *WITH_BASELINE)
    assert ended.exit_code == 0
    assert "fixed: CS301 print in src/pkg/model.py:forward: print(x) (accepted 1, found 0)" in ended.stderr
    strict = check(one_left, *WITH_BASELINE, "--strict")
    assert strict.exit_code == 1
    assert "CS601" in strict.stdout
    printed = strict.stderr.splitlines()[-1].removeprefix(ACCEPT)
    assert accepted_by(printed).exit_code == 0
    assert len(read(accepted).accepted("2.13")) == 1


@pytest.mark.parametrize("format_name", ["text", "markdown"])
def test_report_tells_new_accepted_and_fixed_findings(check: Check, accepted: Path, format_name: str) -> None:
    assert accepted.exists()
    one_left = (broken().graph_breaks[0], broken_at(line=60, text="x.item()"))
    page = check(sound(graph_breaks=one_left), *WITH_BASELINE, "--format", format_name).stdout
    assert "1 finding that b.json does not accept; 1 accepted; 1 fixed" in page
    new, kept, gone = (page.index(word) for word in ("Findings", "Accepted by", "Fixed, and still in"))
    assert new < page.index("x.item()") < kept < gone < page.index("accepted 1, found 0")


def test_strict_may_be_a_setting(check: Check, accepted: Path) -> None:
    (accepted.parent / "pyproject.toml").write_text("[tool.compilescope]\nstrict = true\nbaseline = 'b.json'\n")
    assert check(sound()).exit_code == 1
    assert check(sound(), "--no-strict").exit_code == 0


def test_update_of_the_new_only_drops_nothing(check: Check, accepted: Path) -> None:
    other = sound(graph_breaks=(broken_at(text="x.item()", kind="item"),))
    assert check(other, *WITH_BASELINE, "--update-new-only").exit_code == 0
    assert len(read(accepted).accepted("2.13")) == 3
    assert check(other, *WITH_BASELINE, "--update-baseline").exit_code == 0
    assert len(read(accepted).accepted("2.13")) == 1


@pytest.mark.parametrize("other", ["hard.json", "link.json", "folder/b.json"])
@pytest.mark.parametrize("option", ["-o", "--save"])
def test_baseline_is_not_written_over_by_any_name(check: Check, accepted: Path, other: str, option: str) -> None:
    (accepted.parent / "hard.json").hardlink_to(accepted)
    (accepted.parent / "link.json").symlink_to(accepted)
    (accepted.parent / "folder").symlink_to(".")
    before = accepted.read_bytes()
    ended = check(broken(), *WITH_BASELINE, option, other)
    assert ended.exit_code == 2
    assert f"{other} is the baseline: give the report another file." in ended.stderr
    assert accepted.read_bytes() == before


@pytest.mark.parametrize("option", ["--update-baseline", "--update-new-only"])
def test_what_another_session_has_accepted_meanwhile_stays(
    check: Check, accepted: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    other = sound(graph_breaks=(broken_at(text="x.item()", kind="item"),))

    def meanwhile(*arguments: object) -> object:
        theirs = update(read(accepted), judge(other, Budget(max_graph_breaks=0)), "2.13", new_only=True)
        write(theirs, accepted)
        return judge(*arguments)

    monkeypatch.setattr("compilescope.commands.check.judge", meanwhile)
    assert check(sound(graph_breaks=broken().graph_breaks[:1]), *WITH_BASELINE, option).exit_code == 0
    entries = read(accepted).accepted("2.13")
    assert sum("x.item()" in entry for entry in entries) == 1
    assert sum("print(x)" in entry for entry in entries) == (0 if option == "--update-baseline" else 1)


def test_recording_is_saved_though_the_baseline_cannot_be_written(
    check: Check, accepted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*arguments: object) -> object:
        accepted.write_text("{}")
        return judge(*arguments)

    monkeypatch.setattr("compilescope.commands.check.judge", meanwhile)
    ended = check(broken(), *WITH_BASELINE, "--update-baseline", "--save", "judged.json")
    assert ended.exit_code == 2
    assert "error: b.json is not a compilescope baseline" in ended.stderr
    assert ended.stdout.startswith("FAILED: ")
    assert accepted.read_text() == "{}"
    assert load(accepted.parent / "judged.json").graph_breaks == broken().graph_breaks


def test_baseline_that_is_a_pipe_cannot_be_updated(check: Check, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.json")
    ended = check(broken(), *WITH_BASELINE, "--update-baseline")
    assert (ended.exit_code, ended.stderr) == (2, "Error: The baseline b.json is not a file that can be updated.\n")


def test_baseline_of_another_torch_accepts_nothing(check: Check, accepted: Path) -> None:
    later = sound(meta=meta(torch="2.14.1"), graph_breaks=broken().graph_breaks)
    ended = check(later, *WITH_BASELINE)
    assert ended.exit_code == 1
    assert "b.json has entries only for torch 2.13; this is torch 2.14, so nothing is accepted." in ended.stderr
    assert "Under torch 2.13 it accepts 2 of 2 findings." in ended.stderr
    assert check(later, *WITH_BASELINE, "--update-baseline").exit_code == 0
    assert read(accepted).torch.keys() == {"2.13", "2.14"}
    assert check(broken(), *WITH_BASELINE).exit_code == 0


@pytest.mark.parametrize("format_name", ["text", "markdown"])
def test_findings_that_came_with_another_torch_are_told_from_the_others(
    check: Check, accepted: Path, format_name: str
) -> None:
    assert accepted.exists()
    one_new = (broken_at(line=60, text="x.item()"), *broken().graph_breaks)
    later = sound(meta=meta(torch="2.14.1"), graph_breaks=one_new)
    page = " ".join(check(later, *WITH_BASELINE, "--format", format_name).stdout.split())
    assert "FAILED" in page
    assert "3 findings that b.json does not accept; it accepts 2 of them under torch 2.13" in page
    assert page.count("(accepted under torch 2.13)") == 2
    assert page.count("(not accepted under torch 2.13 either)") == 1


@pytest.mark.parametrize(
    "recording", [Recording(meta=meta()), sound(meta=meta(run=Run(status="raised", error="E: x")))]
)
def test_what_was_not_seen_cannot_be_accepted(check: Check, accepted: Path, recording: Recording) -> None:
    before = accepted.read_bytes()
    for option in ("--update-baseline", "--update-new-only"):
        ended = check(recording, *WITH_BASELINE, option)
        assert ended.exit_code != 0
        assert "b.json was not written: CS1" in ended.stderr
        assert ACCEPT not in ended.stderr
    assert accepted.read_bytes() == before


def test_broken_baseline_is_never_overwritten(check: Check, accepted: Path) -> None:
    accepted.write_text(accepted.read_text()[:-20])
    before = accepted.read_bytes()
    for option in ((), ("--update-baseline",), ("--update-new-only",)):
        assert check(broken(), *WITH_BASELINE, *option).exit_code == 2
    assert accepted.read_bytes() == before


def test_baseline_accepts_in_every_format(check: Check, accepted: Path) -> None:
    ended = check(broken(), "--max-graph-breaks", "0", "--baseline", accepted.name, "--format", "gitlab")
    assert (ended.exit_code, json.loads(ended.stdout)) == (0, [])


def test_nan_in_a_recording_that_was_written_is_no_pass(tmp_path: Path) -> None:
    lost = sound(compilations=(compiled("0/0", seconds=float("nan")), compiled("0/1")))
    (tmp_path / "run.json").write_bytes(to_json(lost))
    ended = CliRunner().invoke(main, ["check", str(tmp_path / "run.json")])
    assert ended.exit_code == 2
    assert "does not follow recording format 1" in ended.stderr
