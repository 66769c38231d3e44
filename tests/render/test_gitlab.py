"""GitLab's code-quality report: the keys that GitLab reads, and fingerprints that tell findings apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from compilescope.record import Finding
from compilescope.render.registry import render

if TYPE_CHECKING:
    from compilescope.record import Recording

SEVERITIES = {"info", "minor", "major", "critical", "blocker"}


def report(recording: Recording) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads(render(recording, "gitlab"))
    return read


@pytest.mark.parametrize("name", ["clean", "flux", "nothing", "limit_hit", "faulty", "big", "hostile"])
def test_every_issue_has_what_gitlab_reads(name: str, request: pytest.FixtureRequest) -> None:
    found = report(request.getfixturevalue(name))
    for issue in found:
        assert issue.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in SEVERITIES
        assert issue["location"]["path"]
        assert issue["location"]["lines"]["begin"] >= 1
    assert len({issue["fingerprint"] for issue in found}) == len(found)


def test_finding_that_moved_is_the_same_finding(clean: Recording) -> None:
    here, there = (
        report(
            replace(clean, findings=(Finding(rule="CS301", code="c", message=f"at {n}", file="a.py", line=n, key="k"),))
        )
        for n in (3, 99)
    )
    assert here[0]["fingerprint"] == there[0]["fingerprint"]
    assert here[0]["location"]["lines"]["begin"] == 3


def test_same_finding_twice_is_two_issues(clean: Recording) -> None:
    finding = Finding(rule="CS301", code=None, message="m", key="k")
    assert len({issue["fingerprint"] for issue in report(replace(clean, findings=(finding, finding)))}) == 2


def test_clean_run_is_an_empty_list(clean: Recording) -> None:
    assert report(clean) == []


def test_doubt_is_an_issue_where_nothing_was_judged(nothing: Recording) -> None:
    assert any("NOTHING WAS COMPILED" in issue["description"] for issue in report(nothing))


def test_what_was_not_seen_is_worse_than_what_was(clean: Recording) -> None:
    blind, over = (Finding(rule=rule, code=None, message="m", key="k") for rule in ("CS101", "CS301"))
    assert [issue["severity"] for issue in report(replace(clean, findings=(blind, over)))] == ["critical", "major"]
