"""The map of docs/architecture.md is the one that the imports follow."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
PACKAGE = ROOT / "compilescope"


def test_imports_keep_the_contracts() -> None:
    # In a process of its own, as it disables every logger that is there.
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_part_of_the_package_has_a_layer() -> None:
    layered = {name.strip() for layer in LAYERS["layers"] for name in layer.split("|")}
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {f"compilescope.{part}" for part in parts - {"__init__", "_version"}} == layered


def test_every_folder_stands_on_the_map() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert {folder for folder in folders if f"`{folder}/`" not in MAP} == set()


def test_every_file_that_the_map_names_is_there() -> None:
    named = {name for name in re.findall(r"`([a-z_/]+\.py)`", MAP) if not name.startswith("tests/")}
    known = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
    assert {name for name in named if not any(path == name or path.endswith(f"/{name}") for path in known)} == set()


def test_private_names_of_torch_stand_in_their_files_alone() -> None:
    importing = re.compile(r"^\s*(?:from|import) torch\._|(?<![\w\"'])torch\._(?:C|guards|functorch)\b", re.MULTILINE)
    files = [path for path in PACKAGE.rglob("*.py") if importing.search(path.read_text(encoding="utf-8"))]
    assert {path.name for path in files if not path.name.startswith("_torch")} == set()
