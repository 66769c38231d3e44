"""What a function does with a value is read from its source; where that is not certain, nothing is said."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import pytest

from compilescope.capture.value_uses import use_of

if TYPE_CHECKING:
    from pathlib import Path

USES = {
    "return x * v": "arithmetic",
    "return x + (v + 1) * 2": "arithmetic",
    "return x * (1 + v % 5)": "arithmetic",
    "half = v // 2\n    return x * half": "arithmetic",
    "x = x * -v\n    return x": "arithmetic",
    "return x * float(v)": "arithmetic",
    "if v > 3:\n        x = x * 2\n    return x": "branch",
    "return x * 2 if v else x": "branch",
    "if v % 2:\n        return x\n    return x * v": "branch",
    "half = v // 2\n    if half == 1:\n        x = x + 1\n    return x": "branch",
    "while v:\n        x = x + 1\n    return x": "branch",
    "assert v\n    return x": "branch",
    "return x if not v else x * 2": "branch",
    "return sum(x * i for i in (1, 2) if v)": "branch",
    "for index in range(v):\n        x = x + index\n    return x": "constant",
    "return x + len(f'layer_{v}')": "constant",
    "return x * [1, 2, 3][v]": "constant",
    "return x * {1: 2}[v]": "constant",
    "return x * len([1] * v)": "constant",
    "return x + len('%d' % v)": "constant",
    "return x * v + len(str(v))": "constant",
    "return x * (x > v)": "arithmetic",
    "flag = v > 3\n    return x if flag else -x": "branch",
    "return x if v * 2 > x.dim() else -x": "branch",
    "v = v + 1\n    return x * v": "arithmetic",
    "return helper(x, v)": None,
    "return x[v:]": None,
    "return v": None,
    "y = helper(v)\n    return x * v": None,
    "return x": None,
}


def function(folder: Path, body: str, parameters: str) -> tuple[str, int]:
    path = folder / "written.py"
    path.write_text(f"import torch\n\n\ndef net({parameters}):\n    {body}\n\n\ndef other(v):\n    return f'{{v}}'\n")
    return str(path), 4


@pytest.mark.parametrize(("body", "use"), USES.items(), ids=[body.replace("\n", " ") for body in USES])
def test_use_of_an_argument_is_the_one_that_asks_most_of_it(tmp_path: Path, body: str, use: str | None) -> None:
    assert use_of("v", *function(tmp_path, body, "x, v")) == use


@pytest.mark.parametrize(("body", "use"), USES.items(), ids=[body.replace("\n", " ") for body in USES])
def test_use_of_an_attribute_is_found_whatever_its_holder_is_called(tmp_path: Path, body: str, use: str | None) -> None:
    written = re.sub(r"\bv\b", "self.level", body)
    assert use_of("self.blocks[0].level", *function(tmp_path, written, "self, x")) == use


@pytest.mark.parametrize(
    ("source", "body", "use"),
    [
        ("self.scaling['default']", "scale = self.scaling['default']\n    return x * scale", "arithmetic"),
        (
            "self.scaling['default']",
            "scale = self.scaling[name]\n    return x if scale == 1.0 else x * scale",
            "branch",
        ),
        ("self.scaling['default']", "return x * self.scaling['other']", None),
        ("G['MODE']", "return x.sin() if MODE == 0 else x.cos()", "branch"),
        ("self.calls", "self.calls += 1\n    return x", "arithmetic"),
    ],
)
def test_value_in_a_dict_a_global_and_a_counter_are_found(
    tmp_path: Path, source: str, body: str, use: str | None
) -> None:
    assert use_of(source, *function(tmp_path, body, "self, x, name")) == use


def test_innermost_function_that_holds_the_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "nested.py"
    path.write_text(
        textwrap.dedent("""
        def outer(x, v):
            def inner(x):
                return x * v
            return inner(x) if v else x
    """)
    )
    assert use_of("v", str(path), 4) == "arithmetic"
    assert use_of("v", str(path), 5) == "branch"


def test_source_that_is_not_at_hand_or_is_no_python_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def net(x, v:\n")
    assert use_of("v", str(path), 1) is None
    assert use_of("v", "<string>", 1) is None
    assert use_of("v, w", *function(tmp_path, "return x * v", "x, v")) is None
    assert use_of("list(dict.keys(v))[0]", *function(tmp_path, "return x * v", "x, v")) is None
    assert use_of("not python (", *function(tmp_path, "return x * v", "x, v")) is None
