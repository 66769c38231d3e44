"""Imports the workloads that a source declares."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import operator
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compilescope.errors import CompilescopeError, WorkloadError
from compilescope.wording import guess, listing
from compilescope.workloads.declare import Workload
from compilescope.workloads.faults import one_line
from compilescope.workloads.model.candidates import candidates_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from compilescope.workloads.locate import WorkloadSource


@contextlib.contextmanager
def importable(source: WorkloadSource) -> Iterator[None]:
    """Put the source's imports on ``sys.path``: a file's folder (or its package's), else the working folder.

    ``sys.path`` is restored afterwards.
    """
    folder = Path.cwd() if isinstance(source.module, str) else _package_root(source.module.resolve().parent)
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def _package_root(folder: Path) -> Path:
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


@dataclass(frozen=True, slots=True)
class Found:
    """A value that a source names and that is not a workload: a model, a model class, or a function.

    Attributes:
        name: its name in reports.
        source: the text that names it.
        value: the value.
        home: the names beside it.
    """

    name: str
    source: str
    value: object
    home: Mapping[str, object]


def load(source: WorkloadSource, *, as_model: bool = False) -> tuple[Workload, ...] | Found:
    """Import the source and return its workloads, or what else it names. Call it inside :func:`importable`.

    Args:
        source: what the user named.
        as_model: whether to look for a model in a file that declares no workload.

    Raises:
        WorkloadError: it cannot be imported, declares no workload, or has nothing with that name.
    """
    module, name = _module_and_name(source)
    if name is not None:
        return _named(module, source, name)
    found = [value for value in vars(module).values() if isinstance(value, Workload)]
    own = [one for one in found if getattr(one.factory, "__module__", None) == module.__name__]
    if not found and as_model:
        return _model_in(module, source)
    if not found:
        msg = (
            f"{source.module} declares no workload; name a model or a function of it as {source.module}:name, "
            "or give the path of a script."
        )
        raise WorkloadError(msg)
    return tuple(dict.fromkeys(own or found))


def _module_and_name(source: WorkloadSource) -> tuple[ModuleType, str | None]:
    """Import what the source names; the last part of a dotted name may be a class in the module before it."""
    if not isinstance(source.module, str) or source.name is not None or "." not in source.module:
        return _import(source.module), source.name
    package, _, name = source.module.rpartition(".")
    try:
        return _import(source.module), None
    except WorkloadError:
        module = sys.modules.get(package)
        if module is None or not hasattr(module, name):
            raise
        return module, name


def _model_in(module: ModuleType, source: WorkloadSource) -> Found:
    """Return the only possible model in a module.

    Raises:
        WorkloadError: there is none, or there are several.
    """
    names = candidates_in(module)
    if len(names) == 1:
        return Found(names[0], f"{source.module}:{names[0]}", getattr(module, names[0]), vars(module))
    if names:
        msg = f"{source.module} holds {listing(names)}: name one, as {source.module}:{names[0]}."
    else:
        msg = f"{source.module} has neither an nn.Module class nor a function that builds a model."
    raise WorkloadError(msg)


def _import(module: Path | str) -> ModuleType:
    try:
        return importlib.import_module(module) if isinstance(module, str) else _import_file(module.resolve())
    except CompilescopeError:
        raise
    except SyntaxError as error:
        msg = f"{module} cannot be imported: {error.msg} ({error.filename}, line {error.lineno})."
    except ModuleNotFoundError as error:
        if isinstance(module, str) and error.name is not None and f"{module}.".startswith(f"{error.name}."):
            msg = f"{module} is neither a file here nor a module that can be imported."
        else:
            msg = f"{module} cannot be imported: {one_line(error)}."
    except (Exception, SystemExit) as error:  # noqa: BLE001 (importing runs the user's code, which may raise anything)
        msg = f"{module} cannot be imported: {one_line(error)}."
    raise WorkloadError(msg)


def _import_file(path: Path) -> ModuleType:
    root = _package_root(path.parent)
    if root != path.parent:
        return importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
    # A file with the name of a loaded module (random.py) must not replace it.
    name = path.stem if path.stem not in sys.modules else f"workloads_of_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        msg = f"{path} cannot be imported: it is not a Python source file."
        raise WorkloadError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _named(module: ModuleType, source: WorkloadSource, name: str) -> tuple[Workload, ...] | Found:
    try:
        found = operator.attrgetter(name)(module)
    except AttributeError:
        known = {key: value for key, value in vars(module).items() if callable(value) and not key.startswith("_")}
        workloads = [key for key, value in known.items() if isinstance(value, Workload)]
        has = f" It declares {listing(workloads)}." if workloads else ""
        msg = f"{os.fspath(source.module)} has nothing called {name!r}.{guess(name, known) or has}"
        raise WorkloadError(msg) from None
    if isinstance(found, Workload):
        return (found,)
    shown = f"{os.fspath(source.module)}:{name}" if source.name is not None else os.fspath(source.module)
    if not callable(found) or (isinstance(found, type) and not is_model(found)):
        what = "a class, but not an nn.Module class" if isinstance(found, type) else type(found).__name__
        msg = f"{shown} is {what}; name a workload, a model, an nn.Module class, or a function."
        raise WorkloadError(msg)
    return Found(name, shown, found, vars(module))


def is_model(value: object) -> bool:
    """Whether ``value`` is an ``nn.Module`` or a class of them; does not import torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(value, torch.nn.Module) or (isinstance(value, type) and issubclass(value, torch.nn.Module))
