"""JUnit XML, which nearly every CI system shows: the run, each sweep point and each finding are test cases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from compilescope.analysis.summary import gist, verdict
from compilescope.render.issues import issues, notes
from compilescope.render.words import harmless_markup, plain, point_text

if TYPE_CHECKING:
    from compilescope.record import Recording, Sweep
    from compilescope.render.issues import Issue
    from compilescope.render.options import Options


@dataclass(frozen=True, slots=True)
class JunitRenderer:
    """Renders one test suite."""

    name: str = "junit"
    extension: str = ".xml"

    def render(self, recording: Recording, options: Options) -> str:  # noqa: ARG002 (the report has one form)
        """Return the document."""
        cases = [_run(recording)]
        cases += [case for sweep in recording.sweeps for case in _points(sweep)]
        cases += [_finding(issue) for issue in issues(recording)]
        counts = {
            "tests": len(cases),
            "failures": sum(case.find("failure") is not None for case in cases),
            "errors": sum(case.find("error") is not None for case in cases),
            "skipped": 0,
        }
        attributes = {"name": "compilescope", **{name: str(number) for name, number in counts.items()}}
        suites = ET.Element("testsuites", attributes)
        suite = ET.SubElement(suites, "testsuite", attributes)
        suite.extend(cases)
        out = ET.SubElement(suite, "system-out")
        out.text = "\n".join((*notes(recording), plain(verdict(recording))))
        ET.indent(suites, " ")
        document = harmless_markup(ET.tostring(suites, encoding="unicode"))
        return f'<?xml version="1.0" encoding="utf-8"?>\n{document}\n'


def _case(group: str, name: str, seconds: float = 0.0) -> ET.Element:
    time = seconds if math.isfinite(seconds) else 0.0
    return ET.Element("testcase", {"classname": f"compilescope.{group}", "name": name, "time": f"{time:.3f}"})


def _run(recording: Recording) -> ET.Element:
    case = _case("run", "the workload ends well and compiles something")
    run = recording.meta.run
    if run is not None and run.status != "ok" and not (run.status == "exited" and run.exit_code == 0):
        said = plain(gist(run.error)) if run.error else f"it {run.status}"
        error = ET.SubElement(case, "error", {"type": run.status, "message": said})
        error.text = "\n".join(plain(line) for line in (run.traceback or said).splitlines())
    elif not recording.compiled:
        ET.SubElement(case, "error", {"type": "nothing-compiled", "message": "nothing was compiled"})
    return case


def _points(sweep: Sweep) -> list[ET.Element]:
    cases: list[ET.Element] = []
    for point in sweep.points:
        case = _case(f"sweep.{plain(sweep.workload)}", point_text(point.values) or "its only point", point.seconds)
        if point.status != "ok":
            said = plain(point.error or "it raised")
            ET.SubElement(case, "error", {"type": "raised", "message": said}).text = said
        cases.append(case)
    return cases


def _finding(issue: Issue) -> ET.Element:
    case = _case(f"{issue.code}.{issue.name}", issue.text)
    where = issue.file or ""
    if issue.file is not None:
        case.set("file", issue.file)
    if issue.line is not None:
        case.set("line", str(issue.line))
        where = f"{where}:{issue.line}"
    failure = ET.SubElement(case, "failure", {"type": issue.code, "message": issue.text})
    failure.text = "\n".join(part for part in (where, issue.text) if part)
    return case
