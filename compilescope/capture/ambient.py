"""Failing guards on what surrounds every call: torch's global state, its modes, its default device."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from compilescope.capture import _torch, describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.capture.asked import Asked
    from compilescope.record import Failure


def global_state(asked: Asked) -> Iterator[Failure]:
    """Tell each field of torch's global state that differs."""
    try:
        want = json.loads(asked.texts[0].partition(" against ")[2])
    except (ValueError, IndexError):
        want = {}
    have = _torch.global_state()
    changed = [name for name, value in want.items() if have.get(name) != value]
    for name in changed:
        old, new = _only_changed(want[name], have.get(name))
        yield asked.failure(old, new, source=name, guard=f"{name} == {old}", part=name, holder="ambient")
    if not changed:
        yield asked.failure(
            "the global state it was compiled under", "another", source="global state", holder="ambient"
        )


def _only_changed(old: object, new: object) -> tuple[str, str]:
    """Describe two values of a state; of compound ones (autocast has a switch for each device) what differs alone."""
    parts = [(f"{path} = {was}", f"{path} = {now}") for path, was, now in _leaves(old, new, "") if was != now and path]
    if not parts:
        return str(old), str(new)
    return describe.shorten(", ".join(was for was, _ in parts)), describe.shorten(", ".join(now for _, now in parts))


def _leaves(old: object, new: object, path: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            yield from _leaves(old[key], new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list):
        for index, (was, now) in enumerate(zip(old, new, strict=False)):
            yield from _leaves(was, now, f"{path}[{index}]")
    else:
        yield path, old, new


def function_modes(asked: Asked) -> Iterator[Failure]:
    """Tell the torch-function modes that are active now; those of the entry are not kept."""
    have = ", ".join(_torch.function_modes()) or "none"
    yield asked.failure(
        "the torch-function modes it was compiled under", have, source="torch-function modes", holder="ambient"
    )


def default_device(asked: Asked) -> Iterator[Failure]:
    """Tell both default devices."""
    want = asked.expression.rpartition("==")[2].strip()
    yield asked.failure(want, _torch.default_device(), source="default device", holder="ambient")
