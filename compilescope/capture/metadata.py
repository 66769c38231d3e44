"""Metadata of tensor subclasses, such as the placements of a DTensor, by name: only what differs is reported."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from compilescope.capture import _torch, describe

if TYPE_CHECKING:
    from compilescope.capture.refused_leaf import Asked
    from compilescope.record import Failure

Parts = tuple[tuple[str, str], ...]
GUARD_BEGINNINGS: Final = ("___check_metadata_", "__dtensor_spec_")
"""How the texts of Dynamo's guards on such metadata begin."""
_SPEC: Final = "._spec"
# What a user sets; the rest of a specification follows from it.
_SPEC_FIELDS: Final = ("mesh", "placements", "tensor_meta")


def parts_of(value: object) -> Parts:
    """Return the metadata of a wrapper subclass, or the fields of a DTensor's specification, as names and texts."""
    if _is_spec(value):
        return tuple((name, _text(getattr(value, name, None))) for name in _SPEC_FIELDS)
    metadata = _torch.subclass_metadata(value)
    if isinstance(metadata, dict):
        return tuple((describe.value(key), _text(item)) for key, item in metadata.items())
    if dataclasses.is_dataclass(metadata) and not isinstance(metadata, type):
        fields = [field.name for field in dataclasses.fields(metadata) if not field.name.startswith("_")]
        return tuple((name, _text(getattr(metadata, name, None))) for name in fields)
    return (("metadata", _text(metadata)),)


def _is_spec(value: object) -> bool:
    return dataclasses.is_dataclass(value) and hasattr(value, "placements")


def _text(value: object) -> str:
    if isinstance(value, tuple) and value and all(hasattr(item, "is_replicate") for item in value):
        # The placements of a DTensor: torch writes Shard(dim=0).
        return ", ".join(repr(item).replace("dim=", "") for item in value)
    return describe.value(value)


def changed(asked: Asked, meaning: str) -> Failure:
    """Describe metadata that a guard refused, by the parts that differ, if the old ones are known."""
    owner = asked.name.removesuffix(_SPEC)
    now = parts_of(asked.value)
    was = asked.was.parts if asked.was is not None else ()
    differing = [(name, old, dict(now).get(name, "absent")) for name, old in was if dict(now).get(name) != old]
    if not differing:
        text = ", ".join(f"{name} {text}" for name, text in now)
        return asked.failure(
            "the metadata it was compiled with", describe.shorten(text), guard=meaning, part="subclass_metadata"
        )
    if len(differing) == 1:
        name, old, new = differing[0]
        source = owner if name == "metadata" else f"{owner}.{name}" if name.isidentifier() else f"{owner} {name}"
        return asked.failure(old, new, source=source, guard=meaning, part="subclass_metadata")
    return asked.failure(
        describe.shorten(", ".join(f"{name} {old}" for name, old, _ in differing)),
        describe.shorten(", ".join(f"{name} {new}" for name, _, new in differing)),
        source=owner,
        guard=meaning,
        part="subclass_metadata",
    )
