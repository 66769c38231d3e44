"""Imports the workloads that a source declares."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import operator
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from compilescope.errors import CompilescopeError, WorkloadError
from compilescope.wording import guess, listing
from compilescope.workload.declare import Workload
from compilescope.workload.faults import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from compilescope.workload.locate import WorkloadSource


@contextlib.contextmanager
def importable(source: WorkloadSource) -> Iterator[None]:
    """Make the modules that the source imports findable: a file's folder (or its package's), else the working one.

    ``sys.path`` is as before on leaving.
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


def load_workloads(source: WorkloadSource) -> tuple[Workload, ...]:
    """Import the source and return its workloads. Call it within :func:`importable`.

    Raises:
        WorkloadError: it cannot be imported, declares no workload, or has nothing of that name.
    """
    module = _import(source.module)
    if source.name is not None:
        return (_named(module, source),)
    found = [value for value in vars(module).values() if isinstance(value, Workload)]
    own = [one for one in found if getattr(one.factory, "__module__", None) == module.__name__]
    if not found:
        msg = (
            f"{source.module} declares no workload; name a function of it as {source.module}:name, "
            "or give the path of a script."
        )
        raise WorkloadError(msg)
    return tuple(dict.fromkeys(own or found))


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
    # A file called like a module that is loaded already (random.py) must not take its place.
    name = path.stem if path.stem not in sys.modules else f"workloads_of_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        msg = f"{path} cannot be imported: it is no Python source file."
        raise WorkloadError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _named(module: ModuleType, source: WorkloadSource) -> Workload:
    name = source.name or ""
    try:
        found = operator.attrgetter(name)(module)
    except AttributeError:
        known = {key: value for key, value in vars(module).items() if callable(value) and not key.startswith("_")}
        workloads = [key for key, value in known.items() if isinstance(value, Workload)]
        has = f" It declares {listing(workloads)}." if workloads else ""
        msg = f"{os.fspath(source.module)} has nothing called {name!r}.{guess(name, known) or has}"
        raise WorkloadError(msg) from None
    if isinstance(found, Workload):
        return found
    if not callable(found) or isinstance(found, type):
        msg = f"{os.fspath(source.module)}:{name} is {type(found).__name__}, neither a workload nor a function."
        raise WorkloadError(msg)
    # A plain function is a workload as it stands: nothing to build, and axes only from --sweep.
    return Workload(name=name, factory=lambda: found, plain=True)
