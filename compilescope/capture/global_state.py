"""Failing guards on ambient state: torch's global state, its modes, its default device."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from compilescope.capture import _torch, describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.capture.refused_leaf import Asked
    from compilescope.record import Failure

# c10's numbers for dtypes, and the devices in the order in which it keeps their autocast state.
_DTYPES: Final = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    9: "complex64",
    10: "complex128",
    11: "bool",
    15: "bfloat16",
}
_AUTOCAST_DEVICES: Final = ("cpu", "cuda", "mtia", "maia", "xpu", "ipu", "hpu", "xla", "privateuse1", "mps")


def global_state(asked: Asked) -> Iterator[Failure]:
    """Report each field of torch's global state that differs."""
    try:
        want = json.loads(asked.texts[0].partition(" against ")[2])
    except (ValueError, IndexError):
        want = {}
    have = _torch.global_state()
    changed = [name for name, value in want.items() if have.get(name) != value]
    for name in changed:
        old, new = _only_changed(*(_named(name, state) for state in (want[name], have.get(name))))
        yield asked.failure(old, new, source=name, guard=f"{name} == {old}", part=name, holder="ambient")
    if not changed:
        yield asked.failure(
            "the global state it was compiled under", "a different state", source="global state", holder="ambient"
        )


def _named(field: str, state: object) -> object:
    """Write dtypes by name, and what autocast holds for each kind of device by the device's name."""
    if field == "default_dtype":
        return _dtype(state)
    if field != "autocast_state" or not isinstance(state, dict):
        return state
    named: dict[str, object] = {}
    for key, value in state.items():
        if isinstance(value, list):
            shown = [_dtype(item) for item in value] if key == "dtype" else value
            named |= {f"{device} {key}": item for device, item in zip(_AUTOCAST_DEVICES, shown, strict=False)}
        else:
            named[str(key)] = value
    return named


def _dtype(number: object) -> object:
    name = _DTYPES.get(number) if isinstance(number, int) else None
    return number if name is None else f"torch.{name}"


def _only_changed(old: object, new: object) -> tuple[str, str]:
    """Describe two values of a state; for compound ones (autocast has a switch per device), only what differs."""
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
    """Report the torch-function modes that are active now, and those of the entry, if known."""
    have = ", ".join(_torch.function_modes()) or "none"
    entry = asked.frame.entry
    want = "the torch-function modes it was compiled under"
    if entry is not None:
        want = ", ".join(entry.modes) or "none"
        have = f"different modes of these classes: {have}" if have == want else have
    yield asked.failure(want, have, source="torch-function modes", holder="ambient")


def default_device(asked: Asked) -> Iterator[Failure]:
    """Report both default devices."""
    want = asked.expression.rpartition("==")[2].strip()
    yield asked.failure(want, _torch.default_device(), source="default device", holder="ambient")
