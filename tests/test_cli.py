"""The command line over saved recordings: routes, exit codes, and what goes to which stream. No torch here."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from compilescope.analysis.glossary import FAMILIES, WORDS, words_called
from compilescope.analysis.kinds import KINDS
from compilescope.analysis.rules import RULES
from compilescope.cli import main
from compilescope.commands import output
from compilescope.commands.explain import break_registry, break_text
from compilescope.errors import RecordingError
from compilescope.record import Compilation, Meta, Recording, Run, Target
from compilescope.render.registry import FORMATS
from compilescope.storage import load, save
from compilescope.wording import listing
from compilescope.workloads.signals import Terminated

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    Cli = Callable[..., Result]
    Saver = Callable[[Recording], str]

COMPILED = Compilation(id="0/0", code="m.py:f", outcome="compiled", seconds=0.1)


def recording(*compilations: Compilation, run: Run | None = None, targets: tuple[Target, ...] = ()) -> Recording:
    meta = Meta(
        compilescope="0.1", torch="2.13.0", python="3.11", platform="Linux", device="cpu", counts_runs=True, run=run
    )
    return Recording(meta=meta, compilations=compilations, targets=targets)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saver:
    """Save a recording in an empty working directory and return its path."""
    monkeypatch.chdir(tmp_path)

    def write(made: object) -> str:
        save(made, tmp_path / "run.json")
        return "run.json"

    return write


@pytest.fixture
def run() -> Cli:
    """Run compilescope in this process."""
    return lambda *arguments: CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def in_process_of_its_own(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    "statement",
    [
        "import compilescope",
        "from compilescope.cli import main; main(['--help'], standalone_mode=False)",
        "from compilescope.cli import main; main(['report', '--help'], standalone_mode=False)",
        "from compilescope.cli import main; main(['explain', 'size'], standalone_mode=False)",
        "from compilescope.cli import main; main(['explain', 'GB0170'], standalone_mode=False)",
        "from compilescope.cli import main; main(['report', 'run.json'], standalone_mode=False)",
        "from compilescope.cli import main; main(['check', 'run.json', '--format', 'sarif'], standalone_mode=False)",
    ],
)
def test_torch_is_not_imported_where_nothing_is_run(statement: str, saved: Saver) -> None:
    saved(recording(COMPILED))
    ended = in_process_of_its_own(f"{statement}\nimport sys\nassert 'torch' not in sys.modules, 'torch'")
    assert ended.returncode == 0, ended.stderr


def test_module_can_be_run() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "compilescope", "--version"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (ended.returncode, ended.stdout[:12]) == (0, "compilescope")


def test_reader_that_has_had_enough_is_no_failure_of_compilescope(saved: Saver) -> None:
    source = saved(recording(COMPILED))
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "compilescope", "report", source],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (2, "")


def test_help_tells_the_exit_codes(run: Cli) -> None:
    shown = run("report", "--help").output
    assert "Exit codes: 0  reported" in shown
    assert "130  interrupted" in shown


def test_report_is_on_stdout_and_the_counts_on_stderr(run: Cli, saved: Saver) -> None:
    ended = run("report", saved(recording(COMPILED)))
    assert ended.exit_code == 0
    assert "compilescope: 1 compilation of 1 code object" in ended.stderr
    assert ended.stdout
    assert "compilescope: 1 compilation of 1 code object" not in ended.stdout


def test_quiet_keeps_the_counts_to_itself_and_the_alarms_not(run: Cli, saved: Saver) -> None:
    assert run("report", saved(recording(COMPILED)), "-q").stderr == ""
    assert "NOTHING WAS COMPILED" in run("report", saved(recording()), "-q").stderr


def test_json_on_stdout_is_the_recording(run: Cli, saved: Saver, tmp_path: Path) -> None:
    made = recording(COMPILED)
    (tmp_path / "again.json").write_text(run("report", saved(made), "--format", "json").stdout)
    assert load(tmp_path / "again.json") == made


def test_formats_go_to_their_files_and_one_to_stdout(run: Cli, saved: Saver, tmp_path: Path) -> None:
    ended = run("report", saved(recording(COMPILED)), "--format", "json:a.json", "--format", "markdown", "-o", "b.md")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert json.loads((tmp_path / "a.json").read_text())["meta"]["format"] == 1
    assert (tmp_path / "b.md").read_text()


def test_dash_is_stdout(run: Cli, saved: Saver) -> None:
    source = saved(recording(COMPILED))
    assert run("report", source, "--format", "json:-").stdout == run("report", source, "--format", "json").stdout


def test_recording_can_be_saved_again(run: Cli, saved: Saver, tmp_path: Path) -> None:
    run("report", saved(recording(COMPILED)), "--save", "copy.json")
    assert load(tmp_path / "copy.json") == load(tmp_path / "run.json")


@pytest.mark.parametrize("format_name", sorted(FORMATS))
def test_no_colours_where_stdout_is_no_terminal(run: Cli, saved: Saver, format_name: str) -> None:
    assert "\x1b[" not in run("report", saved(recording(COMPILED)), "--format", format_name).stdout


def test_format_of_the_project_is_used_and_the_command_line_comes_first(run: Cli, saved: Saver, tmp_path: Path) -> None:
    source = saved(recording(COMPILED))
    (tmp_path / "pyproject.toml").write_text("[tool.compilescope]\nformat = 'json'\n")
    assert run("report", source).stdout.startswith("{")
    assert not run("report", source, "--format", "text").stdout.startswith("{")


def test_exit_code_nothing_compiled(run: Cli, saved: Saver) -> None:
    ended = run("report", saved(recording()))
    assert ended.exit_code == 2
    assert "NOTHING WAS COMPILED" in ended.stderr
    assert "NOTHING WAS COMPILED" in ended.stdout


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (Run(status="ok"), 0),
        (Run(status="exited", exit_code=0), 0),
        (Run(status="exited", exit_code=3), 2),
        (Run(status="raised", error="ValueError: bad"), 2),
        (Run(status="interrupted"), 130),
        (Run(status="interrupted", exit_code=143), 143),
    ],
)
def test_exit_code_end_of_the_workload(run: Cli, saved: Saver, end: Run, code: int) -> None:
    assert run("report", saved(recording(COMPILED, run=end))).exit_code == code


def test_exit_code_none_of_the_targets_was_compiled(run: Cli, saved: Saver) -> None:
    target = Target(selector="Block.*", status="never_reached", compiles=0)
    ended = run("report", saved(recording(COMPILED, targets=(target,))))
    assert ended.exit_code == 2
    assert "never reached" in ended.stderr


def test_exit_code_some_targets_were_compiled(run: Cli, saved: Saver) -> None:
    missed = Target(selector="Block.*", status="never_reached", compiles=0)
    inlined = Target(selector="norm", status="inlined", compiles=0)
    assert run("report", saved(recording(COMPILED, targets=(missed, inlined)))).exit_code == 0


def test_exit_code_report_that_could_not_be_written(run: Cli, saved: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        message = "the disk is full."
        raise RecordingError(message)

    source = saved(recording(COMPILED))
    monkeypatch.setattr(output, "write_atomically", fail)
    ended = run("report", source, "--format", "json:a.json", "--format", "text")
    assert ended.exit_code == 2
    assert "error: the disk is full." in ended.stderr
    assert ended.stdout, "the other format is delivered all the same"


def test_exit_code_failure_of_compilescope_itself(saved: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compilescope.commands.report.deliver", lambda *_, **__: 1 / 0)
    ended = CliRunner().invoke(main, ["report", saved(recording(COMPILED))])
    assert ended.exit_code == 2
    assert "ZeroDivisionError" in ended.stderr
    assert "compilescope itself failed" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--format", "jsno"],
            f"Unknown format 'jsno': the formats are {listing(FORMATS)}. Did you mean json?",
        ),
        (["--format", "json:"], "names no file after the colon"),
        (["--format", "json", "--format", "text"], "Two outputs would go to stdout"),
        (["--format", "json:a", "--format", "text:a"], "Two outputs would go to a:"),
        (["--format", "json:a", "-o", "b"], "-o gives a file to the --format that has none"),
        (["-o", "missing/a.txt"], "The folder missing does not exist."),
        (["--format", "json:a", "--save", "a"], "Two outputs would go to a:"),
        (["--format", "json:a", "--format", "text:./a"], "Two outputs would go to a:"),
        (["--format", "json:a", "--save", "linked/a"], "Two outputs would go to linked/a:"),
        (["--save", "."], ". is a directory; give a file."),
        (["--save", "run.json"], "run.json is the recording that is read: give the report another file."),
        (["-o", "./hard.json"], "hard.json is the recording that is read: give the report another file."),
        (["--sweep", "n=1"], "--sweep cannot be used with run.json: a saved recording is not run again."),
        (["--target", "f"], "--target cannot be used with run.json"),
        (["--parity"], "--parity cannot be used with run.json"),
        (["--", "x"], "Arguments after -- cannot be used with run.json"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_option_is_told_before_anything_is_done(
    run: Cli, saved: Saver, arguments: list[str], sentence: str
) -> None:
    source = saved(recording(COMPILED))
    Path("hard.json").hardlink_to(source)
    Path("linked").symlink_to(".")
    ended = run("report", source, *arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert sentence in ended.stderr


@pytest.mark.parametrize("source", ["program.py", "program.py:w", "program", "program:w"])
@pytest.mark.parametrize("option", ["-o", "--save"])
def test_program_is_never_written_over(run: Cli, saved: Saver, source: str, option: str) -> None:
    saved(recording(COMPILED))
    Path("program.py").write_text("raise SystemExit('this must not run')")
    ended = run("report", source, option, "./program.py")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == "Error: program.py is the program that is run: give the report another file.\n"


def test_stdout_that_is_the_file_of_another_report_is_refused(saved: Saver) -> None:
    source = saved(recording(COMPILED))
    command = [sys.executable, "-m", "compilescope", "report", source, "--save", "a"]
    with Path("a").open("wb") as out:
        ended = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert ended.returncode == 2
    assert "Two outputs would go to a:" in ended.stderr


def test_report_goes_into_a_pipe_that_the_shell_has_opened(saved: Saver) -> None:
    source = saved(recording(COMPILED))
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "compilescope", "report", source, "-o", f"/dev/fd/{writing}"]
    ended = subprocess.run(command, pass_fds=(writing,), capture_output=True, check=False, timeout=120)
    os.close(writing)
    with os.fdopen(reading) as report:
        assert "1 compilation of 1 code object" in report.read()
    assert (ended.returncode, ended.stdout) == (0, b"")


def test_exit_code_terminated_before_anything_was_recorded(
    run: Cli, saved: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object, **__: object) -> None:
        raise Terminated

    monkeypatch.setattr("compilescope.commands.report.obtain", end)
    ended = run("report", saved(recording(COMPILED)))
    assert (ended.exit_code, ended.stderr) == (143, "Terminated.\n")


def test_usage_missing_source(run: Cli) -> None:
    assert run("report").exit_code == 2


@pytest.mark.parametrize("text", ["", "{", '{"x": 1}', "[]"])
def test_usage_file_that_is_no_recording(run: Cli, tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    ended = run("report", str(tmp_path / "run.json"))
    assert ended.exit_code == 2
    assert ended.stderr.startswith("Error: ")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("code", sorted(RULES))
def test_explain_every_rule(run: Cli, code: str) -> None:
    shown = run("explain", code.lower()).stdout
    assert shown.startswith(f"{code} ({RULES[code].name})\n")
    assert RULES[code].meaning in " ".join(shown.split())
    assert shown.strip() in run("explain", RULES[code].name).stdout


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_explain_every_kind(run: Cli, kind: str) -> None:
    shown = run("explain", kind).stdout
    assert shown.startswith(f"{kind} (")
    assert KINDS[kind].meaning in " ".join(shown.split())
    assert "{source}" not in shown


def test_explain_spelling_is_forgiven(run: Cli) -> None:
    assert run("explain", "View-Base").stdout == run("explain", "view_base").stdout


def test_explain_lists_everything_without_a_word(run: Cli) -> None:
    ended = run("explain")
    assert ended.exit_code == 0
    listed = " ".join(ended.stdout.split())
    names = (*KINDS, *RULES, *(word.shown or word.name for word in WORDS), *FAMILIES)
    assert [name for name in names if name not in listed] == []


@pytest.mark.parametrize("word", sorted({form for word in WORDS for form in word.forms}))
def test_explain_every_word_in_every_sense(run: Cli, word: str) -> None:
    shown = " ".join(run("explain", *word.split()).stdout.split())
    senses = words_called(word)
    assert senses
    assert [sense.family for sense in senses if f"({sense.family}) {sense.meaning}" not in shown] == []


def test_explain_takes_one_thing_at_a_time(run: Cli) -> None:
    assert "| `failing` |" in run("explain", "--fields").stdout
    for arguments in (("size", "--rules"), ("size", "--fields"), ("--rules", "--fields")):
        ended = run("explain", *arguments)
        assert (ended.exit_code, ended.stderr) == (2, "Error: Give a CODE to explain, --rules, --kinds, or --fields.\n")


def test_explain_family_of_causes(run: Cli) -> None:
    assert "size, zero_one, rank" in run("explain", "shape").stdout


def test_explain_graph_break(run: Cli) -> None:
    shown = run("explain", "gb0170").stdout
    assert shown.startswith("GB0170: Data-dependent branching\n\nDetected data-dependent branching")
    assert "torch.cond" in shown


def test_explain_every_graph_break_of_the_registry_can_be_shown() -> None:
    for identity in break_registry():
        assert break_text(identity).startswith(f"{identity}: ")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("veiw_base", "Did you mean view_base?"),
        ("never_reachd", "Did you mean never_reached"),
        ("CS202x", "Did you mean CS202"),
        ("qqqq", "`compilescope explain` lists everything it can explain."),
        ("GB9999", "has no graph break GB9999"),
    ],
)
def test_explain_unknown_code(run: Cli, code: str, sentence: str) -> None:
    ended = run("explain", code)
    assert ended.exit_code == 2
    assert sentence in ended.stderr


def test_explain_graph_break_without_torch(run: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    ended = run("explain", "GB0170")
    assert ended.exit_code == 2
    assert "torch is not installed" in ended.stderr


@pytest.mark.parametrize("arguments", ["report run.json", "check run.json", "lanes", "lanes -m slow"])
def test_working_directory_that_was_deleted_gives_a_sentence(run: Cli, tmp_path: Path, arguments: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with contextlib.chdir(gone):
        gone.rmdir()
        ended = run(*arguments.split())
    said = "Error: The working directory cannot be used: No such file or directory. Go to one that exists.\n"
    assert (ended.exit_code, ended.stderr) == (2, said)
