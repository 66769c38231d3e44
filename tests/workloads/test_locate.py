"""SOURCE names a script, workloads or a recording, and nothing of it is run to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compilescope.workloads.locate import RecordingSource, ScriptSource, WorkloadSource, locate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]


@pytest.mark.parametrize(
    "text",
    [
        "from compilescope import workload\n@workload\ndef f(): ...",
        "from compilescope import workload as declare\n@declare(axes=[])\ndef f(): ...",
        "import compilescope\n@compilescope.workload()\ndef f(): ...",
        "import compilescope as cs\nf = cs.workload(lambda: None)",
    ],
)
def test_file_that_uses_the_decorator_declares_workloads(write: Write, text: str) -> None:
    path = write(text)
    assert locate(str(path)) == WorkloadSource(path)


@pytest.mark.parametrize(
    "text",
    [
        "print('training')",
        "from compilescope import observe\nwith observe(): ...",
        "def workload(f): return f\n@workload\ndef f(): ...",
    ],
)
def test_any_other_python_file_is_a_script(write: Write, text: str) -> None:
    path = write(text)
    assert locate(str(path)) == ScriptSource(path)


def test_python_file_without_ending_is_known_by_its_first_line(write: Write) -> None:
    path = write("#!/usr/bin/env python3\nprint()\n", name="train{}")
    assert locate(str(path)) == ScriptSource(path)


def test_json_file_is_a_recording(write: Write) -> None:
    path = write("{}", name="saved{}.json")
    assert locate(str(path)) == RecordingSource(path)


def test_file_and_name_and_module_and_name(write: Write) -> None:
    path = write("def first(): ...")
    assert locate(f"{path}:first") == WorkloadSource(path, "first")
    assert locate("package.module:first") == WorkloadSource("package.module", "first")
    assert locate("package.module") == WorkloadSource("package.module")


def test_locating_runs_nothing(write: Write) -> None:
    locate(str(write("from compilescope import workload\nraise SystemExit")))
    locate(f"{write('raise SystemExit')}:name")
