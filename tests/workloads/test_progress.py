"""A bar is shown where somebody sees it, and the points are handed out in any case."""

import pytest

from compilescope.workloads.progress import show

POINTS = [{"text": 7, "batch": 2}, {"text": 77, "batch": 2}]


def test_nothing_is_drawn_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(show(POINTS)) == POINTS
    assert capsys.readouterr().err == ""


def test_bar_tells_the_point_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(show(POINTS)) == POINTS
    captured = capsys.readouterr()
    assert "text=77, batch=2" in captured.err
    assert captured.out == ""
