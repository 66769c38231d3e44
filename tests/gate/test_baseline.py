"""The baseline: what is accepted, how the file looks, and which files are refused."""

from __future__ import annotations

import codecs
import json
import re
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilescope.analysis.rules import RULES, entry_of
from compilescope.errors import RecordingError, UsageError
from compilescope.gate.baseline import (
    Baseline,
    compare,
    nearest_version,
    read,
    rewrite,
    to_text,
    torch_minor,
    update,
    write,
)
from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge
from compilescope.record import CodeObject, Finding, Recording

from .making import broken_at, compiled, eager, meta, sound

if TYPE_CHECKING:
    from pathlib import Path

BREAK = Finding(rule="CS301", code=None, message="m", key="item in a.py:f: x.item()")
FALLBACK = Finding(rule="CS401", code=None, message="m", key="a.py:f: stance")
SEVEN = Finding(rule="CS203", code=None, message="m", key="f: size of x", amount=7)
BLIND = Finding(rule="CS101", code=None, message="m")


def accepting(*findings: Finding) -> dict[str, int]:
    return dict(update(Baseline(), findings, "2.13").accepted("2.13"))


@pytest.mark.parametrize(
    ("version", "minor"),
    [("2.13.0+cpu", "2.13"), ("2.14.0.dev20260901+cu130", "2.14"), ("2.9", "2.9"), ("nightly", "nightly")],
)
def test_minor_version(version: str, minor: str) -> None:
    assert torch_minor(version) == minor


@pytest.mark.parametrize(
    ("versions", "nearest"),
    [(("2.9", "2.11", "2.14"), "2.11"), (("2.14", "2.15"), "2.14"), (("2.12", "2.13"), None), ((), None)],
)
def test_version_that_findings_of_another_one_are_compared_with(versions: tuple[str, ...], nearest: str | None) -> None:
    assert nearest_version(Baseline({version: {} for version in versions}), "2.13") == nearest


def test_accepted_findings_are_not_new() -> None:
    compared = compare((BREAK, FALLBACK), accepting(BREAK, FALLBACK))
    assert compared.new == ()
    assert compared.accepted == (BREAK, FALLBACK)
    assert compared.fixed == ()


def test_one_more_of_the_same_is_new() -> None:
    compared = compare((BREAK, BREAK), accepting(BREAK))
    assert (compared.accepted, compared.new) == ((BREAK,), (BREAK,))
    assert compare((Finding(rule="CS203", code=None, message="m", key="f: size of x", amount=8),), accepting(SEVEN)).new


def test_fewer_of_the_same_are_accepted_and_pointed_out() -> None:
    fewer = Finding(rule="CS203", code=None, message="m", key="f: size of x", amount=3)
    compared = compare((fewer,), accepting(SEVEN))
    assert compared.new == ()
    assert [str(one) for one in compared.fixed] == ["CS203 f: size of x (accepted 7, found 3)"]


def test_what_is_found_no_more_is_fixed() -> None:
    assert [one.entry for one in compare((FALLBACK,), accepting(BREAK, FALLBACK)).fixed] == [f"CS301 {BREAK.key}"]


def test_same_words_under_another_rule_are_another_finding() -> None:
    other = Finding(rule="CS302", code=None, message="m", key=BREAK.key)
    assert compare((other,), accepting(BREAK)).new == (other,)


def test_what_was_not_seen_is_never_accepted() -> None:
    assert accepting(BLIND, BREAK) == accepting(BREAK)
    assert compare((BLIND,), {"CS101 anything": 1}).new == (BLIND,)


@pytest.mark.parametrize("rule", sorted(RULES.values(), key=lambda rule: rule.code), ids=lambda rule: rule.code)
def test_rule_says_whether_its_findings_may_be_accepted(rule: object) -> None:
    finding = Finding(rule=rule.code, code=None, message="m", key="k")  # type: ignore[attr-defined]
    assert (entry_of(finding) is not None) == rule.acceptable  # type: ignore[attr-defined]


def test_finding_of_a_rule_that_is_not_ours_is_never_accepted() -> None:
    assert entry_of(Finding(rule="XX1", code=None, message="m", key="k")) is None


def test_update_replaces_this_version_alone() -> None:
    old = update(update(Baseline(), (BREAK,), "2.12"), (BREAK,), "2.13")
    new = update(old, (FALLBACK,), "2.13")
    assert new.accepted("2.12") == accepting(BREAK)
    assert new.accepted("2.13") == accepting(FALLBACK)


def test_update_of_the_new_only_keeps_what_was_fixed() -> None:
    old = update(Baseline(), (BREAK, SEVEN), "2.13")
    fewer = Finding(rule="CS203", code=None, message="m", key="f: size of x", amount=3)
    assert update(old, (FALLBACK, fewer), "2.13", new_only=True).accepted("2.13") == accepting(BREAK, SEVEN, FALLBACK)


def test_update_without_findings_says_that_this_version_was_looked_at() -> None:
    assert '"2.13"' in to_text(update(Baseline(), (), "2.13"))


def test_file_reads_back(tmp_path: Path) -> None:
    baseline = update(update(Baseline(), (BREAK, FALLBACK, SEVEN), "2.13"), (SEVEN,), "2.9")
    for made in (baseline, Baseline()):
        write(made, tmp_path / "b.json")
        assert read(tmp_path / "b.json") == made


@pytest.mark.parametrize(
    ("before", "now", "found", "after", "after_new_only"),
    [
        ({"CS301 a": 1}, {"CS301 a": 1, "CS301 b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ({"CS301 a": 1}, {"CS301 a": 1, "CS301 b": 2}, {}, {"b": 2}, {"a": 1, "b": 2}),
        ({"CS301 a": 1}, {"CS301 a": 4}, {"a": 3}, {"a": 4}, {"a": 4}),
        ({"CS301 a": 1}, {"CS301 a": 2}, {"a": 3}, {"a": 3}, {"a": 3}),
        ({"CS301 a": 3}, {"CS301 a": 3}, {"a": 2}, {"a": 2}, {"a": 3}),
        ({"CS301 a": 3}, {"CS301 a": 4}, {}, {"a": 4}, {"a": 4}),
        ({"CS301 a": 1, "CS301 b": 1}, {}, {"a": 1}, {"a": 1}, {"a": 1}),
    ],
    ids=[
        "added_by_another",
        "added_by_another_and_fixed_here",
        "raised_by_another_to_more",
        "raised_by_another_to_less",
        "fixed_in_part",
        "raised_by_another_and_fixed_here",
        "dropped_by_another",
    ],
)
def test_update_changes_what_its_run_speaks_of_and_keeps_what_others_changed_meanwhile(
    before: dict[str, int],
    now: dict[str, int],
    found: dict[str, int],
    after: dict[str, int],
    after_new_only: dict[str, int],
) -> None:
    findings = [Finding(rule="CS301", code=None, message="m", key=key, amount=n) for key, n in found.items()]
    for new_only, expected in ((False, after), (True, after_new_only)):
        updated = update(
            Baseline({"2.13": now, "2.9": {}}), findings, "2.13", new_only=new_only, before=Baseline({"2.13": before})
        )
        assert updated.torch == {"2.13": {f"CS301 {key}": n for key, n in expected.items()}, "2.9": {}}


def test_sessions_that_write_one_file_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    findings = [Finding(rule="CS301", code=None, message="m", key=f"key {number}") for number in range(8)]
    together = threading.Barrier(len(findings))

    def session(finding: Finding) -> None:
        before = Baseline()
        together.wait()
        rewrite(path, lambda now: update(now, (finding,), "2.13", before=before))

    threads = [threading.Thread(target=session, args=(finding,)) for finding in findings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(path).accepted("2.13") == accepting(*findings)
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.json"]


def test_file_that_has_become_something_else_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(UsageError, match="is not a compilescope baseline"):
        rewrite(tmp_path / "b.json", lambda now: now)
    assert (tmp_path / "b.json").read_text() == "{}"


def test_file_has_one_finding_a_line_in_order(tmp_path: Path) -> None:
    baseline = update(update(Baseline(), (FALLBACK, BREAK, BREAK), "2.13"), (), "2.9")
    write(baseline, tmp_path / "b.json")
    assert (tmp_path / "b.json").read_text() == (
        '{\n "format": 1,\n "torch": {\n'
        '  "2.9": {\n   "~": 0\n  },\n'
        '  "2.13": {\n   "CS301 item in a.py:f: x.item()": 2,\n   "CS401 a.py:f: stance": 1,\n   "~": 0\n  }\n'
        " }\n}\n"
    )


@given(order=st.permutations([BREAK, FALLBACK, SEVEN, BREAK]))
def test_order_of_the_findings_makes_no_difference(order: list[Finding]) -> None:
    expected = to_text(update(Baseline(), (BREAK, BREAK, FALLBACK, SEVEN), "2.13"))
    assert to_text(update(Baseline(), order, "2.13")) == expected


@given(keys=st.dictionaries(st.text(min_size=1).map(lambda text: " ".join(text.split())).filter(bool), st.integers(1)))
@settings(deadline=None)  # it writes files
def test_any_words_can_be_written_and_read(keys: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    baseline = Baseline({"2.13": {f"CS301 {key}": count for key, count in keys.items()}})
    write(baseline, path)
    assert read(path) == baseline


def test_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write(Baseline({"2.13": {"CS301 x": 1}}), path)
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    assert read(path).accepted("2.13") == {"CS301 x": 1}


def test_entry_that_is_no_text_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with pytest.raises(RecordingError, match=r"the entry 'CS301 \\udc80.py' is not UTF-8 text"):
        write(Baseline({"2.13": {"CS301 \udc80.py": 1}}), path)
    assert not path.exists()


def test_nothing_in_the_file_depends_on_the_machine_the_lines_or_the_time() -> None:
    def run(folder: str, shift: int) -> Recording:
        inside = CodeObject(id=f"{folder}/m.py:g", qualname="g", file=f"{folder}/m.py", line=shift)
        twin = CodeObject(id=f"src/m.py:f@{shift}", qualname="f", file="src/m.py", line=shift)
        return sound(
            meta=meta(python=f"3.{shift}", device=folder),
            code_objects=(*sound().code_objects, inside, twin),
            compilations=(
                *sound().compilations,
                compiled(f"{shift}/0", inside, seconds=shift),
                compiled(f"{shift}/1", inside, guards=99),
                compiled(f"{shift}/2", twin, guards=99),
            ),
            graph_breaks=(broken_at(file=f"{folder}/m.py", line=shift), broken_at(line=shift)),
            fallbacks=(eager(code=inside, calls=shift), eager("recompile_limit", code=twin, calls=shift)),
            targets=(),
        )

    budget = Budget(max_compiles=0, max_recompiles=0, max_graph_breaks=0, max_guards=10)
    here, there = (
        to_text(update(Baseline(), judge(run(folder, shift), budget), "2.13"))
        for folder, shift in (("/home/ann/x", 17), ("/builds/ci/y", 918))
    )
    assert here == there
    assert len(here.splitlines()) > 10
    for word in ("/home", "17", "918", "0x"):
        assert word not in here


def _merge(tmp_path: Path, *versions: str) -> str:
    for name, text in zip(("ours", "base", "theirs"), versions, strict=True):
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "merge-file", "--union", "ours", "base", "theirs"], cwd=tmp_path, check=True)
    return (tmp_path / "ours").read_text()


def test_branches_that_add_findings_merge_line_by_line(tmp_path: Path) -> None:
    base = (BREAK, FALLBACK)
    ours = Finding(rule="CS301", code=None, message="m", key="print in z.py:f: print(x)")
    theirs = Finding(rule="CS504", code=None, message="m", key="never written")
    last = Finding(rule="CS502", code=None, message="m", key="the last line of all", amount=9)
    versions = ((*base, ours), base, (*base, theirs, last))
    merged = _merge(tmp_path, *(to_text(update(Baseline(), found, "2.13")) for found in versions))
    (tmp_path / "b.json").write_text(merged)
    assert read(tmp_path / "b.json").accepted("2.13") == accepting(*base, ours, last)


def test_branch_that_drops_the_last_finding_merges_with_one_that_adds_another(tmp_path: Path) -> None:
    versions = ((BREAK,), (BREAK, SEVEN, FALLBACK), (BREAK, SEVEN, FALLBACK))
    merged = _merge(tmp_path, *(to_text(update(Baseline(), found, "2.13")) for found in versions))
    (tmp_path / "b.json").write_text(merged)
    assert read(tmp_path / "b.json").accepted("2.13") == accepting(BREAK)


SOUND = '{"format": 1, "torch": {"2.13": {"CS301 x": 1, "~": 0}}}'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not valid JSON, or was cut short"),
        (SOUND[:-9], "is not valid JSON, or was cut short"),
        ("[" * 100_000, "is not valid JSON: it is nested too deeply"),
        (SOUND.replace('x": 1', 'x": ' + "[" * 100_000), "is not valid JSON: it is nested too deeply"),
        ("[]", "is not a compilescope baseline"),
        ('{"meta": {}}', "is not a compilescope baseline"),
        (SOUND.replace("1, ", "2, ", 1), "has format 2; this version reads format 1"),
        (SOUND.replace('"torch"', '"torhc"'), "is not a compilescope baseline"),
        (SOUND.replace('"format"', '"strict": true, "format"'), "Unknown key 'strict' in the baseline"),
        (SOUND.replace("2.13", "latest"), "'latest' in the baseline .* must be a version"),
        (SOUND.replace("CS301 x", "CS310 x"), "Unknown entry 'CS310 x' .*Did you mean CS3"),
        (SOUND.replace("CS301 x", "CS301"), "Unknown entry 'CS301'"),
        (SOUND.replace("CS301 x", "CS101 x"), "accepts a finding that cannot be accepted: nothing-compiled"),
        (SOUND.replace('x": 1', 'x": 0'), "must be a whole number of 1 or more, not 0"),
        (SOUND.replace('x": 1', 'x": true'), "must be a whole number of 1 or more, not True"),
        (SOUND.replace('x": 1', 'x": 1.5'), "must be a whole number of 1 or more, not 1.5"),
        (SOUND.replace('x": 1', 'x": NaN'), "must be a whole number of 1 or more, not nan"),
        (SOUND.replace("CS301 x", "CS301 \\ud800"), r"'CS301 \\ud800' .* is not UTF-8 text"),
        (SOUND.replace('x": 1', 'x": 1, "CS301 x": "\\ud800"'), r"appears twice, as 1 and '\\ud800'"),
        (SOUND.replace('x": 1', 'x": 1, "CS301 x": 2'), "'CS301 x' appears twice, as 1 and 2"),
    ],
)
def test_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=sentence) as told:
        read(path)
    assert str(path) in str(told.value)


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read(tmp_path / "b.json")


def test_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path / 'b.json'} cannot be read: No such file")):
        read(tmp_path / "b.json")


def test_same_line_twice_after_a_merge_counts_once(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(SOUND.replace('x": 1', 'x": 1, "CS301 x": 1'))
    assert read(tmp_path / "b.json").accepted("2.13") == {"CS301 x": 1}


def test_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.json"
    write(Baseline(), path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(RecordingError, match="No space left"):
        write(update(Baseline(), (BREAK,), "2.13"), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.json"]
    assert path.read_bytes() == before


def test_file_is_json_for_other_tools() -> None:
    assert json.loads(to_text(update(Baseline(), (BREAK,), "2.13")))["torch"]["2.13"]["CS301 " + (BREAK.key or "")] == 1
