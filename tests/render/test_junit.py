"""JUnit XML: well-formed whatever the text, counts that add up, points and findings as cases."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from compilescope.record import Finding, Run
from compilescope.render.registry import render

if TYPE_CHECKING:
    from compilescope.record import Recording


def suite(recording: Recording) -> ET.Element:
    found = ET.fromstring(render(recording, "junit").encode()).find("testsuite")  # noqa: S314 (our own text)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["clean", "flux", "nothing", "limit_hit", "faulty", "big", "hostile"])
def test_document_is_well_formed_and_its_counts_add_up(name: str, request: pytest.FixtureRequest) -> None:
    found = suite(request.getfixturevalue(name))
    cases = found.findall("testcase")
    assert int(found.attrib["tests"]) == len(cases)
    assert int(found.attrib["failures"]) == len(found.findall("testcase/failure"))
    assert int(found.attrib["errors"]) == len(found.findall("testcase/error"))
    for case in cases:
        assert case.attrib["name"]
        assert float(case.attrib["time"]) >= 0


def test_finding_is_a_failed_case_at_its_line(faulty: Recording) -> None:
    case = suite(faulty).findall("testcase")[-1]
    assert case.attrib["classname"] == "compilescope.CS101.nothing-compiled"
    assert case.attrib["line"] == "410"
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "7 recompiles, 0 allowed"
    assert (failure.text or "").startswith("diffusers/models/transformers/transformer_flux.py:410\n")


def test_each_point_is_a_case_and_one_that_raised_an_error(faulty: Recording) -> None:
    ok, raised = (case for case in suite(faulty) if case.attrib.get("classname") == "compilescope.sweep.flux")
    assert ok.attrib["name"] == "height=3, text_len=0, batch=1"
    assert ok.find("error") is None
    error = raised.find("error")
    assert error is not None
    assert error.attrib["message"] == "IndexError: x"


@pytest.mark.parametrize(
    ("run", "kind"),
    [(Run(status="raised", error="E: x", traceback="T"), "raised"), (Run(status="exited", exit_code=3), "exited")],
)
def test_crash_is_an_error_of_the_run(clean: Recording, run: Run, kind: str) -> None:
    error = suite(replace(clean, meta=replace(clean.meta, run=run))).find("testcase/error")
    assert error is not None
    assert error.attrib["type"] == kind


def test_nothing_compiled_is_an_error_though_nothing_was_judged(nothing: Recording) -> None:
    error = suite(nothing).find("testcase/error")
    assert error is not None
    assert error.attrib["type"] == "nothing-compiled"


def test_clean_run_has_no_failure(clean: Recording) -> None:
    found = suite(clean)
    assert (found.attrib["failures"], found.attrib["errors"]) == ("0", "0")


def test_characters_that_xml_cannot_hold_are_written_as_escapes(clean: Recording) -> None:
    finding = Finding(rule="CS301", code=None, message="a\x00\x1b[31m\ud800\uffff<&>\"'b", key="k")
    failure = suite(replace(clean, findings=(finding,))).find("testcase/failure")
    assert failure is not None
    assert failure.attrib["message"] == "a\\x00\\x1b[31m\\ud800\\uffff<&>\"'b"
