"""The small repository in examples/ci passes as it is, and turns red for each of several one-line regressions."""

from __future__ import annotations

import ast
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compilescope.storage import load

from .outcomes import run_pytest

if TYPE_CHECKING:
    from .outcomes import Session

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci"
SHAPES = "test_two_graphs_serve_every_shape"
PARITY = "test_compiled_equals_eager[4]"
POOLING = "test_pooling_is_one_graph"


@dataclass(frozen=True)
class Regression:
    """A line of the model that is changed, the test that must turn red, and what it says."""

    line: str
    changed: str
    test: str
    says: str


REGRESSIONS = {
    "blocks_are_not_named": Regression(
        '_repeated_blocks = ("TransformerBlock",)',
        "_repeated_blocks = ()",
        SHAPES,
        r"CS102  Target TransformerBlock\.forward was never reached; nothing was compiled",
    ),
    "other_blocks_are_named": Regression(
        '_repeated_blocks = ("TransformerBlock",)',
        '_repeated_blocks = ("ModulatedNorm",)',
        SHAPES,
        r"CS102  Target TransformerBlock\.forward was never reached; these were compiled: ModulatedNorm\.forward",
    ),
    "empty_text_is_refined": Regression(
        "if text.shape[1] > 0:",
        "if text.shape[1] >= 0:",
        SHAPES,
        r"CS203  TransformerBlock\.forward was recompiled once as shapes changed: zero_one of x\.size\(\)\[1\]",
    ),
    "shapes_are_static": Regression(
        "torch.compile(module.forward, **options)",
        'torch.compile(module.forward, **options | {"dynamic": False})',
        SHAPES,
        r"CS203  TransformerBlock\.forward was recompiled .* as shapes changed: size of x\.size\(\)\[1\]",
    ),
    "block_branches_on_length": Regression(
        "return x + gate * self.down(",
        "return x + gate * (2 if x.shape[1] > 400 else 1) * self.down(",
        SHAPES,
        r"CS203  TransformerBlock\.forward was recompiled .* as shapes changed: bound of x\.size\(\)\[1\]",
    ),
    "layers_differ_in_an_attribute": Regression(
        "TransformerBlock(width, heads, modulation=True) for _ in range(3)",
        "TransformerBlock(width, heads * (1 + i % 2), modulation=True) for i in range(3)",
        SHAPES,
        r"CS205  TransformerBlock\.forward was recompiled once for module_attr_int, 0 allowed: .*self\.heads",
    ),
    "block_runs_eagerly": Regression(
        "torch.compile(module.forward, **options)",
        "torch.compiler.disable(torch.compile(module.forward, **options))",
        PARITY,
        r"CS102  Target TransformerBlock\.forward was never reached",
    ),
    "block_prints": Regression(
        "normed, gate = self.norm1(x, temb)",
        "normed, gate = self.norm1(x, temb); print(x.shape)",
        PARITY,
        r"Unsupported",
    ),
    "pooling_breaks_once_more": Regression(
        "return text.sum(dim=1) / mask.sum(dim=1, keepdim=True)",
        'print("pooled"); return text.sum(dim=1) / mask.sum(dim=1, keepdim=True)',
        POOLING,
        r"CS301 .*print[^\n]*\[tinydit\.py:\d+\]$",
    ),
}

# Every folder has a tinydit of its own, and the paths of its findings begin in it, as in a repository.
CONFTEST = """
import pathlib, random, sys
import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.modules.pop("tinydit", None)

@pytest.fixture(autouse=True)
def in_repository(monkeypatch):
    monkeypatch.chdir(HERE)
"""
# Of a copy with a regression only the test that must see it is run, in whatever order.
CHOOSE = """
import random

CHOSEN = {chosen!r}

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.name in CHOSEN.get(item.nodeid.partition("/")[0], item.name)]
    random.Random(20261130).shuffle(items)
"""
OTHERS = """
import pytest
import torch

@pytest.mark.parametrize("number", range(100))
def test_other(number):
    def function(x):
        return x * (number + 1)
    assert torch.compile(function, backend="eager")(torch.ones(3)).sum() == 3 * (number + 1)
"""


def copy_of(folder: Path) -> Path:
    """Copy the example, without what running it left there."""
    return Path(shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".*_cache")))


def test_passes_as_it_is_on_two_workers(tmp_path: Path) -> None:
    place = copy_of(tmp_path / "ci")
    reports = ("--compilescope-report=json:all.json", "--compilescope-report=markdown:all.md")
    done = run_pytest(place, "-n", "2", "--strict-markers", *reports)
    assert done.code == 0, done.output
    assert len(done.tests) == 5
    whole = load(place / "all.json")
    assert not whole.findings
    # Two graphs for the blocks in three tests and one where the text is empty; the pooling and what resumes it.
    names = [one.code.rpartition(":")[2] for one in whole.compiled]
    assert names.count("TransformerBlock.forward") == 7
    causes = [(cause.kind, cause.source) for one in whole.recompiles for cause in one.recompile.causes]
    assert causes == [("module_type", "self.norm1")] * 3
    assert len(whole.graph_breaks) == 1
    assert "TransformerBlock.forward" in (place / "all.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Run the example, every regression of it and a hundred other compile tests, shuffled, in one process."""
    root = tmp_path_factory.mktemp("regressions")
    chosen = {name: [regression.test] for name, regression in REGRESSIONS.items()} | {"as_it_is": [SHAPES, PARITY]}
    (root / "conftest.py").write_text(CHOOSE.format(chosen=chosen), encoding="utf-8")
    (root / "test_others.py").write_text(OTHERS, encoding="utf-8")
    for name, regression in {"as_it_is": None, **REGRESSIONS}.items():
        place = copy_of(root / name)
        (place / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        if regression is not None:
            model = place / "tinydit.py"
            text = model.read_text(encoding="utf-8")
            assert text.count(regression.line) == 1
            model.write_text(text.replace(regression.line, regression.changed), encoding="utf-8")
    baseline = root / "as_it_is" / "compilescope-baseline.json"
    return run_pytest(root, "--import-mode=importlib", f"--compilescope-baseline={baseline}", ".")


def of(session: Session, folder: str) -> dict[str, str]:
    """Return what became of the tests of one copy."""
    return {
        name.rpartition("::")[2]: outcome.status for name, outcome in session.tests.items() if name.startswith(folder)
    }


def test_passes_as_it_is_among_a_hundred_other_compile_tests(session: Session) -> None:
    assert set(of(session, "as_it_is").values()) == {"passed"}
    assert list(of(session, "test_others").values()) == ["passed"] * 100


@pytest.mark.parametrize("name", REGRESSIONS)
def test_one_line_turns_it_red(session: Session, name: str) -> None:
    regression = REGRESSIONS[name]
    (found,) = (outcome for test, outcome in session.tests.items() if test.startswith(f"{name}/"))
    assert found.status == "failed"
    assert re.search(regression.says, found.text, re.MULTILINE), found.text


def test_the_seeds_test_is_short() -> None:
    text = (EXAMPLE / "tests" / "test_compile.py").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) < 25
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert {"test_compiled_equals_eager", SHAPES} <= set(names)
