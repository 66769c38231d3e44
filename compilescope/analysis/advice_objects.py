"""What helps against causes of the layout, tensor, container, object and ambient families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.analysis.advising import Advice, about, of_adapter, place_of, value_of
from compilescope.analysis.summary import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from compilescope.analysis.facts import Facts
    from compilescope.record import Failure

_SHARED: Final = ("self", "fn", "args[0]")
_ONE_KEY: Final = ("MISSING", "DICT_CONTAINS", "SET_CONTAINS")
"""Guards that check for one key, whatever other keys there are."""
_ISOLATION: Final = (2, 13)
"""The first version in which a compiled callable can have its own entries."""
_AS_NAMED: Final = (
    "stride",
    "view_base",
    "memory_format",
    "dtype",
    "device",
    "inference_tensor",
    "dispatch_keys",
    "subclass_metadata",
    "dim_marking",
    "list_length",
    "dict_order",
    "module_training",
    "attr_added",
    "global_state",
    "torch_function_mode",
    "default_device",
    "backend",
    "invalidated",
    "concurrent",
    "guard_error",
    "unknown",
)
"""Kinds whose sentence has the same name and fits whatever the facts."""


def _tensor_type(cause: Failure, facts: Facts) -> Advice:
    return Advice("lora_rank") if of_adapter(cause, facts) else about(cause, "tensor_type")


def _requires_grad(cause: Failure, facts: Facts) -> Advice:
    swapped = any(other.kind in ("tensor_type", "size") and of_adapter(other, facts) for other in facts.causes)
    if swapped and of_adapter(cause, facts):
        return Advice("lora_rank")
    parameter = "Parameter" in (cause.expected_type, cause.actual_type) or cause.registered == "parameter"
    if not parameter:
        return about(cause, "requires_grad")
    return about(cause, "requires_grad_parameter", all=listed(map(value_of, (cause.source, *cause.also))))


def _dict_keys(cause: Failure, _: Facts) -> Advice:
    return about(cause, "dict_key" if cause.guard_type in _ONE_KEY else "dict_keys")


def _class(name: str) -> Callable[[Failure, Facts], Advice]:
    def rule(cause: Failure, facts: Facts) -> Advice:
        if cause.source in _SHARED and len(facts.owners) > 1:
            isolated = facts.torch >= _ISOLATION
            owners = ", ".join(facts.owners[:3]) + (" and others" if len(facts.owners) > 3 else "")  # noqa: PLR2004 (what a line holds)
            return about(cause, "shared_code" if isolated else "shared_code_before_isolation", owners=owners)
        if cause.source.endswith(".processor"):
            return Advice("attention_processor")
        return about(cause, name)

    return rule


def _object_id(cause: Failure, facts: Facts) -> Advice:
    if ", " in cause.source or cause.part == "aliasing":
        return about(cause, "aliasing")
    return _class("object_id")(cause, facts)


def _type(cause: Failure, facts: Facts) -> Advice:
    if {cause.expected_type, cause.actual_type} == {"int", "float"}:
        return about(cause, "number_type")
    return _class("type")(cause, facts)


def _named(name: str) -> Callable[[Failure, Facts], Advice]:
    return lambda cause, _: about(cause, name)


RULES: Final[Mapping[str, Callable[[Failure, Facts], Advice]]] = {
    **{name: _named(name) for name in _AS_NAMED},
    "storage_offset": lambda cause, _: about(cause, "storage_offset", place=place_of(cause.where)),
    "requires_grad": _requires_grad,
    "dict_keys": _dict_keys,
    "dict_length": _named("dict_keys"),
    "module_type": _class("module_type"),
    "type": _type,
    "object_id": _object_id,
    "function_id": _class("function"),
    "tensor_type": _tensor_type,
}
