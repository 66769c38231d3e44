"""SARIF 2.1.0: valid by the published schema for any recording, with places and fingerprints that viewers need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator, FormatChecker
from msgspec.structs import replace

from compilescope.analysis.rules import RULES
from compilescope.record import Finding, Meta, Recording, Run
from compilescope.render.registry import render

SCHEMA = Path(__file__).parent / "schemas" / "sarif-schema-2.1.0.json"

if TYPE_CHECKING:
    Validator = Draft4Validator


@pytest.fixture(scope="module")
def validator() -> Validator:
    schema = json.loads(SCHEMA.read_text())
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema, format_checker=FormatChecker())


def log(recording: Recording) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(render(recording, "sarif"))
    return read


def results(recording: Recording) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = log(recording)["runs"][0]["results"]
    return found


@pytest.mark.parametrize("name", ["clean", "flux", "nothing", "limit_hit", "faulty", "big", "hostile"])
def test_log_is_valid(name: str, validator: Validator, request: pytest.FixtureRequest) -> None:
    validator.validate(log(request.getfixturevalue(name)))


words = st.text(max_size=12)
findings = st.builds(
    Finding,
    rule=st.sampled_from(sorted(RULES)) | words,
    code=st.none() | words,
    message=words,
    file=st.none() | words,
    line=st.none() | st.integers(-2, 10**6),
    key=st.none() | words,
    amount=st.integers(-1, 9),
)
runs = st.none() | st.builds(Run, status=st.sampled_from(["ok", "raised", "exited", "interrupted"]))


@given(found=st.lists(findings, max_size=4).map(tuple), run=runs, version=words)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_log_of_any_findings_is_valid(
    found: tuple[Finding, ...], run: Run | None, version: str, validator: Validator
) -> None:
    meta = Meta(compilescope=version, torch="2.13", python="3.11", platform="Linux", device="cpu", run=run)
    validator.validate(log(Recording(meta=meta, findings=found)))


def test_schema_refuses_what_is_wrong(validator: Validator, faulty: Recording) -> None:
    wrong = log(faulty)
    wrong["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(wrong)


def test_result_points_to_its_line_and_names_its_code(faulty: Recording) -> None:
    (result,) = results(faulty)
    place = result["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("transformer_flux.py")
    assert place["physicalLocation"]["region"] == {"startLine": 410}
    assert place["logicalLocations"][0]["fullyQualifiedName"] == faulty.findings[0].code
    assert result["ruleId"] == "CS101"


def test_rules_are_described_once_and_pointed_to(clean: Recording) -> None:
    found = tuple(Finding(rule=rule, code=None, message="m", key="k") for rule in ("CS301", "CS203", "CS301"))
    (run,) = log(replace(clean, findings=found))["runs"]
    described = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in described] == ["CS301", "CS203"]
    assert [described[result["ruleIndex"]]["id"] for result in run["results"]] == ["CS301", "CS203", "CS301"]
    assert described[0]["fullDescription"]["text"] == RULES["CS301"].meaning


def test_every_result_has_a_place_since_code_scanning_refuses_others(clean: Recording) -> None:
    (result,) = results(replace(clean, findings=(Finding(rule="CS101", code=None, message="m"),)))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "pyproject.toml"


def test_finding_that_moved_keeps_its_fingerprint(clean: Recording) -> None:
    here, there = (
        results(replace(clean, findings=(Finding(rule="CS301", code="c", message=f"{n}", file="a", line=n, key="k"),)))
        for n in (3, 99)
    )
    assert here[0]["partialFingerprints"] == there[0]["partialFingerprints"]


def test_run_that_crashed_is_no_success(faulty: Recording, clean: Recording) -> None:
    assert log(faulty)["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert log(clean)["runs"][0]["invocations"][0]["executionSuccessful"] is True


def test_doubts_are_notifications_where_nothing_was_judged(nothing: Recording) -> None:
    (invocation,) = log(nothing)["runs"][0]["invocations"]
    assert any("NOTHING WAS COMPILED" in note["message"]["text"] for note in invocation["toolExecutionNotifications"])
