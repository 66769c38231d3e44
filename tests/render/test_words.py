"""The small pieces of text."""

from __future__ import annotations

import pytest

from compilescope.record import CodeObject, Location
from compilescope.render.words import (
    axes_note,
    clip,
    clip_pair,
    clip_path,
    is_relation,
    plain,
    resume_line,
    resume_names,
    seconds,
    values_alone,
)


@pytest.mark.parametrize(
    ("text", "line"),
    [("a b", "a b"), ("a\nb\t", "a\\nb\\t"), ("\x1b[2J", "\\x1b[2J"), ("\u202ex", "\\u202ex"), ("\ud800", "\\ud800")],
)
def test_plain_leaves_nothing_that_moves_a_cursor(text: str, line: str) -> None:
    assert plain(text) == line
    assert plain(text).isprintable()


@pytest.mark.parametrize(("width", "cut"), [(11, "0123456789"), (8, "01234..."), (3, "..."), (0, "")])
def test_clip_counts_the_dots(width: int, cut: str) -> None:
    assert clip("0123456789", width) == cut


def test_clip_counts_cells() -> None:
    assert clip("\u6f22" * 10, 10) == "\u6f22" * 3 + "..."


@pytest.mark.parametrize(
    ("width", "cut"), [(99, "a/bb/ccc/d.py:1"), (14, ".../ccc/d.py:1"), (12, ".../d.py:1"), (5, "...:1")]
)
def test_paths_lose_their_start_at_a_folder(width: int, cut: str) -> None:
    assert clip_path("a/bb/ccc/d.py:1", width) == cut


def test_a_relation_names_its_values_once() -> None:
    relation = "a.size()[0] == 1 + b.size()[1]"
    assert is_relation("a.size()[0], b.size()[1]", relation)
    assert not is_relation("a.size()[0]", "16")
    assert not is_relation("", "16")
    assert not is_relation("d", "order 'a', 'd'")
    assert values_alone(relation, "a.size()[0] = 22, b.size()[1] = 20") == "22, 20"
    assert values_alone("16", "[1, 21]") == "[1, 21]"
    assert values_alone("a.x == 1", "c = 3") == "c = 3"


def test_moved_axes_are_told_from_no_sweep() -> None:
    assert axes_note(None) is None
    assert axes_note(()) == "no axis changed"
    assert axes_note(("height", "width")) == "height and width changed"


def test_durations_are_never_rounded_to_nothing() -> None:
    assert [seconds(0.0123), seconds(0.5), seconds(12)] == ["12 ms", "0.5 s", "12.0 s"]


def test_a_resume_function_tells_its_line() -> None:
    named = CodeObject(id="r", qualname="M.torch_dynamo_resume_in_forward_at_702", file="m.py", line=1, resumes="p")
    assert resume_line(named) == "702"
    assert resume_line(CodeObject(id="r", qualname="M.forward", file="m.py", line=1, resumes="p")) is None


def resumed(identity: str, line: int, text: str | None) -> CodeObject:
    after = Location(file="m.py", line=line, text=text)
    return CodeObject(id=identity, qualname="f", file="m.py", line=line, resumes="p", resumed_after=after)


def test_resume_functions_are_named_by_their_lines_and_where_that_is_not_enough_by_what_stands_there() -> None:
    codes = [
        resumed("a", 5, "opt.step()"),
        resumed("b", 5, "sched.step()"),
        resumed("c", 9, "print(x)"),
        resumed("d", 12, None),
        resumed("e", 12, None),
        CodeObject(id="f", qualname="forward", file="m.py", line=1, resumes="p"),
    ]
    assert resume_names(codes) == {
        "a": "resumed after opt.step(), line 5",
        "b": "resumed after sched.step(), line 5",
        "c": "resumed after line 9",
        "d": "resumed after line 12 (1)",
        "e": "resumed after line 12 (2)",
    }


@pytest.mark.parametrize(
    ("expected", "actual", "width", "cut"),
    [
        ("a.b.Norm", "a.b.LuminaNorm", 20, ("a.b.Norm", "a.b.LuminaNorm")),
        ("a.b.Norm", "a.b.LuminaNorm", 12, ("Norm", "LuminaNorm")),
        ("one.package.Norm", "another.package.Norm", 16, ("one.package.Norm", "...package.Norm")),
        ("a.build.<locals>.Norm", "a.build.<locals>.Other", 12, ("Norm", "Other")),
        ("a.Norm", "a.ANormWithAVeryLongName", 12, ("Norm", "ANormWith...")),
        ("1.5000000000000001", "1.5000000000000002", 12, ("1.5000000...", "1.5000000...")),
        ("[1, 2, 3, 4, 5]", "a.b", 12, ("[1, 2, 3,...", "a.b")),
    ],
)
def test_clip_pair_keeps_what_tells_two_classes_apart(
    expected: str, actual: str, width: int, cut: tuple[str, str]
) -> None:
    assert clip_pair(expected, actual, width) == cut
