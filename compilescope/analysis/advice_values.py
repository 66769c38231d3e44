"""What helps against causes that are Python values: arguments, attributes, globals, variables of a closure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compilescope.analysis.advising import Advice, about, and_dynamic, compares, place_of, quoted
from compilescope.analysis.facts import library_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from compilescope.analysis.facts import Facts
    from compilescope.record import Failure

_NUMBERS: Final = ("int", "float")


def _number(cause: Failure, facts: Facts) -> Advice:
    """A number that dynamic=True makes dynamic, unless the code branches on it or needs it as a constant."""
    if (known := _by_library(cause, facts)) is not None:
        return known
    if (needed := _needed(cause)) is not None:
        return needed
    if cause.use == "branch":
        return about(cause, "side_expected" if facts.dynamic is True else "number_branched")
    if facts.dynamic is True:
        return about(cause, "number_as_tensor" if cause.use == "arithmetic" else "constant_or_tensor")
    return about(cause, "number" if cause.use == "arithmetic" else "number_unread")


def _needed(cause: Failure) -> Advice | None:
    if len(set(cause.symbols)) > 1:
        # The number is dynamic already: the failing guard compares it with another.
        return about(cause, "shape_relation", place=place_of(cause.where))
    if cause.use == "branch" or (cause.pinned_by is None and cause.use != "constant"):
        return None
    if cause.use is None and compares(cause.pinned_by):
        return about(cause, "number_compared", place=place_of(cause.pinned_by), quoted=quoted(cause.pinned_by))
    return about(cause, "constant_expected", at="" if cause.pinned_by is None else f" at {place_of(cause.pinned_by)}")


def _by_library(cause: Failure, facts: Facts) -> Advice | None:
    if cause.source.endswith("['lr']") and "param_groups" in cause.source:
        return Advice("learning_rate")
    if ".scaling[" in cause.source and library_of(cause.where) == "peft" and facts.library == "diffusers":
        return Advice("lora_scaling")
    return None


def _module_int(cause: Failure, facts: Facts) -> Advice:
    """An int attribute of a module, which stays a constant under dynamic=True unless a setting makes it dynamic."""
    if facts.config.get("allow_unspec_int_on_nn_module") is True:
        return _number(cause, facts)
    if (needed := _needed(cause)) is not None:
        return needed
    names = {"arithmetic": "module_int", "branch": "module_int_branched"}
    return about(cause, names.get(cause.use or "", "module_int_unread"), and_dynamic=and_dynamic(facts))


def _any(cause: Failure, facts: Facts) -> Advice:
    """A value of any type, by its type."""
    types = {cause.expected_type, cause.actual_type} - {None}
    if "bool" in types:
        return about(cause, "bool_expected")
    if "str" in types:
        return about(cause, "string_expected")
    if types == {"int"} and cause.of_module:
        # Reached through the module, it stays a constant, like the module's own ints.
        return _module_int(cause, facts)
    if types and types <= set(_NUMBERS):
        return _number(cause, facts)
    return about(cause, "value_expected")


def _global(cause: Failure, facts: Facts) -> Advice:
    if "int" not in (cause.actual_type, cause.expected_type):
        return _any(cause, facts)
    if cause.use == "branch":
        return about(cause, "global_branched", and_dynamic=and_dynamic(facts))
    return _needed(cause) or about(cause, "global_number", and_dynamic=and_dynamic(facts))


def _closure(cause: Failure, facts: Facts) -> Advice:
    return about(cause, "constant_or_tensor") if cause.actual_type not in _NUMBERS else _number(cause, facts)


def _none(cause: Failure, _: Facts) -> Advice:
    if cause.holder == "module":
        return about(cause, "optional_part")
    return about(cause, "optional_argument", for_mask=" (a mask may be all true)" * ("mask" in cause.source))


RULES: Final[Mapping[str, Callable[[Failure, Facts], Advice]]] = {
    "python_int": _number,
    "python_float": _number,
    "python_bool": lambda cause, _: about(cause, "bool_expected"),
    "python_str": lambda cause, _: about(cause, "string_expected"),
    "python_value": lambda cause, _: about(cause, "value_expected"),
    "none_vs_value": _none,
    "module_attr_int": _module_int,
    "module_attr": _any,
    "attr_changed": _any,
    "attr_str": lambda cause, _: about(cause, "string_expected"),
    "global": _global,
    "closure": _closure,
}
