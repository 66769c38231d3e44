"""Reads YAML, and reads its values without trusting their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from compilescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Table = dict[str, object]


class Reference(tuple[str, ...]):
    """GitLab's ``!reference [job, key]``: the value of a key of another job."""

    __slots__ = ()


class _Loader(yaml.SafeLoader):
    """Plain YAML with the tags of CI files."""


def _reference(loader: yaml.SafeLoader, node: yaml.Node) -> object:
    if not isinstance(node, yaml.SequenceNode):
        return None
    return Reference(str(name) for name in loader.construct_sequence(node))


def _other(_loader: yaml.SafeLoader, _suffix: str, _node: yaml.Node) -> None:
    """Ignore a tag that says nothing about tests."""


_Loader.add_constructor("!reference", _reference)
_Loader.add_multi_constructor("!", _other)
_BOOLEANS: Final = {True: "true", False: "false"}


def load(file: Path) -> object:
    """Return the last document of a YAML file; a GitLab file may begin with a document of inputs.

    Args:
        file: its path.

    Raises:
        UsageError: it cannot be read, or is not YAML.
    """
    try:
        documents = list(yaml.load_all(file.read_text(encoding="utf-8"), Loader=_Loader))
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror or error}."
        raise UsageError(msg) from None
    except yaml.MarkedYAMLError as error:
        line = f", in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        msg = f"{file} is not valid YAML: {error.problem or error.context}{line}."
        raise UsageError(msg) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{file} is not valid YAML: {' '.join(str(error).split())}."
        raise UsageError(msg) from None
    return documents[-1] if documents else None


def table(value: object) -> Table:
    """Return a mapping with its keys as text; an empty one for anything else."""
    return {text(key): each for key, each in value.items()} if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """Return a list as it is, nothing as an empty one, and anything else as a list of one."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def tables(value: object) -> Iterator[Table]:
    """Yield the mappings in a list."""
    return (table(one) for one in items(value) if isinstance(one, dict))


def text(value: object) -> str:
    """Write a scalar as a CI service passes it to a shell."""
    if isinstance(value, bool):
        return _BOOLEANS[value]
    return "" if value is None else str(value)


def lines(value: object) -> str:
    """Return the commands of a script; each may have several lines, and lists may be nested."""
    if isinstance(value, list):
        return "\n".join(lines(one) for one in value)
    return text(value)


def values(value: object) -> dict[str, str]:
    """Return variables with their values; in GitLab a value may be a table that contains it."""
    found = {name: table(each).get("value") if isinstance(each, dict) else each for name, each in table(value).items()}
    return {name: text(each) for name, each in found.items()}
