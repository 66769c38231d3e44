"""Members of modules and objects: the dicts that hold them, and what replaced one that is gone."""

from __future__ import annotations

import re
from typing import Any, Final

from compilescope.capture import guard_expressions

_MEMBERS: Final = {"_modules": "submodule", "_parameters": "parameter", "_buffers": "buffer"}
_MEMBER: Final = re.compile(rf"(?P<owner>.*)\.(?P<dict>{'|'.join(_MEMBERS)})\['(?P<name>[^']+)'\]")
_ATTRIBUTE: Final = re.compile(r"(?P<owner>.*)\.(?P<name>\w+)")
_NAMESPACES: Final = (*(f".{name}" for name in _MEMBERS), ".__dict__")


def is_namespace(source: str) -> bool:
    """Whether a dict holds the attributes of an object, the members of a module, or the globals."""
    return source.endswith(_NAMESPACES) or source == "G"


def instead(source: str, scope: dict[str, Any]) -> tuple[str, object] | None:
    """Return what a module has as a plain attribute if the entry's module had a member there.

    A module keeps submodules, parameters and buffers apart from other attributes: a layer whose ``attn2`` is None has
    no such submodule, but still has the attribute.

    Returns:
        What the entry had, in a word, and what is there now; None if there is no such attribute at all.
    """
    found = _MEMBER.fullmatch(source)
    if found is None:
        return None
    held = _namespace(found["owner"], scope)
    return (_MEMBERS[found["dict"]], held[found["name"]]) if found["name"] in held else None


def became(source: str, scope: dict[str, Any]) -> tuple[str, object] | None:
    """Return how a module now has what the entry's module had as a plain attribute, for example as a submodule.

    An attribute that once held a module stays registered, as None after the module is removed.
    """
    found = _ATTRIBUTE.fullmatch(source)
    held = {} if found is None else _namespace(found["owner"], scope)
    if found is None or found["name"] in held:
        return None
    for name, word in _MEMBERS.items():
        registered = held.get(name)
        if isinstance(registered, dict) and found["name"] in registered:
            return word, registered[found["name"]]
    return None


def _namespace(owner: str, scope: dict[str, Any]) -> dict[str, Any]:
    try:
        return vars(guard_expressions.evaluate(owner, scope))
    except Exception:  # noqa: BLE001 (an owner that cannot be reached is unknown)
        return {}
