"""Settings of a project or an environment: ``[tool.compilescope]`` and ``COMPILESCOPE_*``.

Precedence: command line, environment, ``pyproject.toml``, default. An unknown key is an error: a misspelt setting would
otherwise silently do nothing.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.errors import UsageError
from compilescope.gate.budget import Budget
from compilescope.gate.budget_settings import read_budget
from compilescope.wording import guess, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PREFIX: Final = "COMPILESCOPE_"
_FILE: Final = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Config:
    """The settings.

    Attributes:
        targets: patterns over the names of what should be compiled.
        order: in which a sweep visits its points.
        seed: of the order ``random``.
        format: formats and files of reports, each ``FORMAT`` or ``FORMAT:FILE``.
        count_runs: whether calls are compared with graph runs.
        parity: whether every point is compared with eager.
        baseline: file of accepted findings.
        strict: whether fixed entries of the baseline are findings.
        lanes: mark expressions or commands of pytest, one for each lane of continuous integration.
        budget: limits for ``check`` and the pytest plugin.
    """

    targets: tuple[str, ...] = ()
    order: str = "grid"
    seed: int = 0
    format: tuple[str, ...] = ("text",)
    count_runs: bool = True
    parity: bool = False
    baseline: str | None = None
    strict: bool = False
    lanes: tuple[str, ...] = ()
    budget: Budget = field(default_factory=Budget)


def _strings(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    msg = "a string or a list of strings"
    raise TypeError(msg)


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    msg = "a string"
    raise TypeError(msg)


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    msg = "a whole number"
    raise TypeError(msg)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    msg = "true or false"
    raise TypeError(msg)


def _budget(value: object) -> Budget:
    if isinstance(value, dict):
        return read_budget(value)
    msg = "a table"
    raise TypeError(msg)


_READERS: Final[Mapping[str, Callable[[object], object]]] = MappingProxyType(
    {
        "targets": _strings,
        "order": _string,
        "seed": _integer,
        "format": _strings,
        "count-runs": _boolean,
        "parity": _boolean,
        "baseline": _string,
        "strict": _boolean,
        "lanes": _strings,
        "budget": _budget,
    }
)
"""Each key of the table, with the function that reads its value; its error says what it expects."""
_TABLES: Final = frozenset({"budget"})
"""Keys whose values do not fit into an environment variable."""


def working_folder() -> Path:
    """Return the folder that the user is in.

    Raises:
        UsageError: it was deleted.
    """
    try:
        return Path.cwd()
    except OSError as error:
        msg = f"The working directory cannot be used: {error.strerror}. Go to one that exists."
        raise UsageError(msg) from None


def load_config(folder: Path, environment: Mapping[str, str]) -> Config:
    """Return the settings for ``folder``.

    Args:
        folder: where the search for ``pyproject.toml`` begins; it goes up from there.
        environment: usually ``os.environ``.

    Raises:
        UsageError: a file is not TOML, a key is unknown, or a value has the wrong type.
    """
    config = Config()
    path = _find(folder)
    if path is not None:
        config = _apply(config, _table(path), where=f"[tool.compilescope] in {path}")
    return _apply(config, _from_environment(environment), where="the environment")


def _find(folder: Path) -> Path | None:
    return next((place / _FILE for place in (folder, *folder.parents) if (place / _FILE).is_file()), None)


def _table(path: Path) -> Mapping[str, object]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}."
        raise UsageError(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path} is not valid TOML: {error}."
        raise UsageError(msg) from None
    table = tables.get("tool", {}).get("compilescope", {})
    if not isinstance(table, dict):
        msg = f"tool.compilescope in {path} is not a table."
        raise UsageError(msg)
    return table


def _from_environment(environment: Mapping[str, str]) -> Mapping[str, object]:
    """Return the settings of the environment, each as the type that its key has in a table."""
    found: dict[str, object] = {}
    for name, text in environment.items():
        if not name.startswith(_PREFIX):
            continue
        key = name.removeprefix(_PREFIX).lower().replace("_", "-")
        if key not in _READERS or key in _TABLES:
            names = [_variable(known) for known in _READERS if known not in _TABLES]
            msg = f"Unknown environment variable {name}: compilescope reads {listing(names)}.{guess(name, names)}"
            raise UsageError(msg)
        found[key] = _from_text(key, text)
    return found


def _variable(key: str) -> str:
    return _PREFIX + key.upper().replace("-", "_")


def _from_text(key: str, text: str) -> object:
    reader = _READERS[key]
    if reader is _strings:
        return [part.strip() for part in text.split(",") if part.strip()]
    if reader is _boolean:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(
            text.casefold(), text
        )
    if reader is _integer:
        return int(text) if text.removeprefix("-").isdecimal() else text
    return text


def _apply(config: Config, values: Mapping[str, object], *, where: str) -> Config:
    for key, value in values.items():
        reader = _READERS.get(key)
        if reader is None:
            msg = f"Unknown key {key!r} in {where}: the keys are {listing(_READERS)}.{guess(key, _READERS)}"
            raise UsageError(msg)
        try:
            read = reader(value)
        except TypeError as error:
            msg = f"{key!r} in {where} must be {error}, not {value!r}."
            raise UsageError(msg) from None
        except UsageError as error:
            msg = f"{key!r} in {where}: {error}"
            raise UsageError(msg) from None
        config = replace(config, **{key.replace("-", "_"): read})  # type: ignore[arg-type]  # checked by the reader
    return config
