"""Finds what SOURCE, the user's one word, names. Nothing is run here."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from compilescope.errors import WorkloadError
from compilescope.wording import guess

_LOG_MARKS = (b"[__recompiles", b"[__graph_breaks", b"[__guards")
_TRACE_PREFIX = "dedicated_log_torch_trace"
_LATER = "this version reads scripts, workloads and saved recordings"
_HEAD_BYTES = 65_536
_DECLARING = frozenset({"workload", "Workload", "model_workload"})


@dataclass(frozen=True, slots=True)
class ScriptSource:
    """A Python file that is run as ``__main__``."""

    path: Path


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """A module that is run as ``__main__``, as ``python -m`` does."""

    name: str


@dataclass(frozen=True, slots=True)
class RecordingSource:
    """A saved recording."""

    path: Path


@dataclass(frozen=True, slots=True)
class WorkloadSource:
    """A file or a module that declares workloads.

    Attributes:
        module: a ``.py`` file, or the dotted name of a module.
        name: one workload or function in it; None for all workloads.
    """

    module: Path | str
    name: str | None = None


Source = ScriptSource | ModuleSource | RecordingSource | WorkloadSource


def locate(text: str) -> Source:
    """Return what ``text`` names, without running it.

    A ``.py`` file that uses ``compilescope.workload`` declares workloads; any other is a script. To run one function of
    a script, or a workload that a file only imports, name it: ``file.py:name``.

    Raises:
        WorkloadError: it does not exist, or cannot be run.
    """
    module, colon, name = text.rpartition(":")
    if colon and (module.endswith(".py") or _is_dotted(module)) and _is_dotted(name):
        if not module.endswith(".py"):
            return WorkloadSource(module, name)
        path = _existing(Path(module))
        _parse(path)
        return WorkloadSource(path, name)
    path = Path(text)
    if not path.exists() and _is_dotted(text) and not text.endswith((".py", ".json")):
        return WorkloadSource(text)
    return _locate_file(_existing(path))


def locate_module(name: str) -> ModuleSource:
    """Return the module that ``-m`` names, without importing its package.

    Raises:
        WorkloadError: it is not a name, or the module or package does not exist.
    """
    first = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(first) if _is_dotted(name) else None
    except (ImportError, ValueError):  # ValueError: a module without a spec
        spec = None
    here = Path.cwd() / first
    if not _is_dotted(name) or (spec is None and not here.is_dir() and not here.with_suffix(".py").exists()):
        msg = f"-m {name}: there is no module {first}, neither here nor installed."
        raise WorkloadError(msg)
    return ModuleSource(name)


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _existing(path: Path) -> Path:
    if path.is_dir():
        if any(entry.name.startswith(_TRACE_PREFIX) for entry in path.iterdir()):
            msg = f"{path} is a TORCH_TRACE directory; {_LATER}."
        else:
            msg = f"{path} is a directory; give a file in it, or a module as package.module."
        raise WorkloadError(msg)
    if not path.exists():
        near: list[str] = []
        with contextlib.suppress(OSError):
            near = [str(path.parent / entry.name) for entry in path.parent.iterdir() if entry.is_file()]
        msg = f"{path} does not exist.{guess(str(path), near)}"
        raise WorkloadError(msg)
    return path


def _locate_file(path: Path) -> Source:
    if path.suffix == ".json":
        return RecordingSource(path)
    head = _head(path)
    if path.suffix == ".py" or (head.startswith(b"#!") and b"python" in head.partition(b"\n")[0]):
        return WorkloadSource(path) if declares_workloads(_parse(path)) else ScriptSource(path)
    if path.name.startswith(_TRACE_PREFIX):
        msg = f"{path} is a TORCH_TRACE log; {_LATER}."
    elif any(mark in head for mark in _LOG_MARKS):
        msg = f"{path} is a TORCH_LOGS text; {_LATER}."
    else:
        msg = f"{path} is neither a Python file (.py) nor a saved recording (.json)."
    raise WorkloadError(msg)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}."
        raise WorkloadError(msg) from None


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        msg = f"{path} is not valid Python: {error.msg} (line {error.lineno})."
    except ValueError as error:  # null bytes
        msg = f"{path} is not valid Python: {error}."
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}."
    raise WorkloadError(msg)


def declares_workloads(tree: ast.Module) -> bool:
    """Return whether the file uses ``compilescope.workload``, under any import name."""
    packages: set[str] = set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages |= {alias.asname or alias.name for alias in node.names if alias.name == "compilescope"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "compilescope":
            names |= {alias.asname or alias.name for alias in node.names if alias.name in _DECLARING}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            return True
        if isinstance(node, ast.Attribute) and node.attr in _DECLARING:
            package = node.value
            if isinstance(package, ast.Name) and package.id in packages:
                return True
    return False
