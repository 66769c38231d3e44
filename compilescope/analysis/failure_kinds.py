"""The kind of a failing guard, from the guard's class, the part that failed, and the types on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from compilescope.record import Failure

_ZERO_ONE: Final = ("0", "1")

_TENSOR_PARTS: Final[Mapping[str, str]] = {
    "rank": "rank",
    "stride": "stride",
    "size_stride": "shape_relation",
    "memory_format": "memory_format",
    "dtype": "dtype",
    "device": "device",
    "requires_grad": "requires_grad",
    "inference": "inference_tensor",
    "inference_mode": "global_state",
    "autocast": "global_state",
    "dispatch_keys": "dispatch_keys",
    "class": "tensor_type",
}
_TENSORS: Final = frozenset({"Tensor", "Parameter"})
_EXPRESSION_FORMS: Final[Mapping[str, str]] = {
    "base": "view_base",
    "stride": "stride",
    "dense_stride": "stride",
    "memory_format": "memory_format",
    "storage_offset": "storage_offset",
    "divisible": "divisibility",
    "at_least_two": "zero_one",
    "duck": "duck_size",
    "equal": "shape_relation",
    "relation": "shape_relation",
    "constant": "size",
    "bound": "bound",
}
_VALUE_TYPES: Final[Mapping[str, str]] = {
    "int": "python_int",
    "float": "python_float",
    "bool": "python_bool",
    "str": "python_str",
}
_DIRECT: Final[Mapping[str, str]] = {
    "GLOBAL_STATE": "global_state",
    "TORCH_FUNCTION_MODE_STACK": "torch_function_mode",
    "DEFAULT_DEVICE": "default_device",
    "BACKEND_MATCH": "backend",
    "INVALIDATED": "invalidated",
    "DIMENSION_DYNAMIC_MARKING_GUARD": "dim_marking",
    "DISPATCH_KEY_SET_MATCH": "dispatch_keys",
    "DUAL_LEVEL_MATCH": "dispatch_keys",
    "TENSOR_SUBCLASS_METADATA_MATCH": "subclass_metadata",
    "NO_TENSOR_ALIASING": "object_id",
    "OBJECT_ALIASING": "object_id",
    "STORAGE_OVERLAPPING": "object_id",
    "RANGE_ITERATOR_MATCH": "python_value",
    "FAKE_SCRIPT_TYPE_MATCH": "type",
    "NO_HASATTR": "attr_added",
    "CONCURRENT": "concurrent",
    "UNKNOWN": "unknown",
}
_CONTAINER_PARTS: Final[Mapping[str, str]] = {
    "keys": "dict_keys",
    "order": "dict_order",
    "dict": "dict_length",
    "members": "python_value",
    "type": "type",
}


def kind_of(failure: Failure) -> str:
    """Name the kind of one failing guard."""
    container = _CONTAINER_PARTS.get(failure.part or "")
    if container is not None:
        return container
    classify = _BY_TYPE.get(failure.guard_type)
    if classify is not None:
        return classify(failure)
    direct = _DIRECT.get(failure.guard_type)
    if direct is not None:
        return direct
    return _form_kind(failure)


def _form_kind(failure: Failure) -> str:
    if failure.part is not None and failure.part in _EXPRESSION_FORMS:
        return (
            "guard_error" if failure.raised is not None and failure.part != "base" else _EXPRESSION_FORMS[failure.part]
        )
    if failure.part == "aliasing":
        return "object_id"
    if failure.part == "value":
        return _value_kind(failure) if failure.raised is None else "guard_error"
    return "guard_error" if failure.raised is not None else "unknown"


def _tensor_kind(failure: Failure) -> str:
    if failure.part == "class" and _is_none(failure):
        return "none_vs_value"
    if failure.part == "class" and failure.holder != "tensor" and failure.actual_type in _VALUE_TYPES:
        return "type"
    if failure.part == "size":
        # A size of 0 or 1 gets its own graph, whether or not the dimension is dynamic.
        return "zero_one" if failure.expected in _ZERO_ONE or failure.actual in _ZERO_ONE else "size"
    return _TENSOR_PARTS.get(failure.part or "", "unknown")


def _is_none(failure: Failure) -> bool:
    return "NoneType" in (failure.expected_type, failure.actual_type)


def _type_kind(failure: Failure) -> str:
    if _is_none(failure):
        return "none_vs_value"
    if failure.part == "module":
        return "module_type"
    return "tensor_type" if _TENSORS & {failure.expected_type, failure.actual_type} else "type"


def _identity_kind(failure: Failure) -> str:
    if _is_none(failure):
        return "none_vs_value"
    if failure.part == "member":
        return _value_kind(failure)
    if failure.part == "callable":
        return "function_id"
    # torch 2.11 does not record the expected class; if there is a function now, there was one before.
    name = failure.actual_type if failure.expected_type == "object" else failure.expected_type
    return "function_id" if name in _FUNCTIONS else "object_id"


def _value_kind(failure: Failure) -> str:
    if failure.holder == "global":
        return "global"
    if failure.holder == "closure":
        return "closure"
    if _is_none(failure):
        return "none_vs_value"
    types = (failure.expected_type, failure.actual_type)
    if failure.holder == "module":
        return _module_value_kind(failure, types)
    if failure.holder == "object":
        return "attr_str" if "str" in types else "attr_changed"
    return _VALUE_TYPES.get(failure.actual_type or "", "python_value")


def _module_value_kind(failure: Failure, types: Sequence[str | None]) -> str:
    if failure.source.endswith(".training"):
        return "module_training"
    if "str" in types:
        return "attr_str"
    return (
        "module_attr_int" if failure.actual_type == "int" and failure.expected_type in ("int", None) else "module_attr"
    )


def _contains_kind(failure: Failure) -> str:
    return "attr_added" if failure.part == "attribute" else "guard_error"


def _missing_kind(failure: Failure) -> str:
    if failure.part is None:
        return "list_length"
    if failure.part == "registered_tensor":
        return "tensor_type"
    if failure.part == "registered":
        # It is now in another dict of the module; or it is None on only one side.
        return "none_vs_value" if _is_none(failure) and failure.expected_type != failure.actual_type else "module_attr"
    if failure.part != "missing":
        # The attribute exists, but no longer as a submodule, parameter or buffer.
        if failure.actual_type == "NoneType":
            return "none_vs_value"
        return "module_type" if failure.part == "submodule" else "module_attr"
    if failure.holder in ("module", "object"):
        return "attr_added"
    return "dict_keys" if failure.holder == "dict" else "guard_error"


_LAMBDA_PARTS: Final[Mapping[str, str]] = {
    "subclass_metadata": "subclass_metadata",
    "opaque": "python_value",
    "functorch": "dispatch_keys",
    "saved_tensors_hooks": "global_state",
}


def _lambda_kind(failure: Failure) -> str:
    return _LAMBDA_PARTS.get(failure.part or "") or _form_kind(failure)


_FUNCTIONS: Final = ("function", "code", "builtin_function_or_method", "method")

_BY_TYPE: Final[Mapping[str, Callable[[Failure], str]]] = {
    "TENSOR_MATCH": _tensor_kind,
    "TYPE_MATCH": _type_kind,
    "ID_MATCH": _identity_kind,
    "EQUALS_MATCH": _value_kind,
    "TRUE_MATCH": _value_kind,
    "FALSE_MATCH": _value_kind,
    "FLOAT_IS_NAN": _value_kind,
    "COMPLEX_IS_NAN": _value_kind,
    "NONE_MATCH": lambda _: "none_vs_value",
    "NOT_NONE": lambda _: "none_vs_value",
    "LENGTH_CHECK": lambda _: "list_length",
    "TUPLE_ITERATOR_LEN": lambda _: "list_length",
    "DICT_CONTAINS": _contains_kind,
    "MISSING": _missing_kind,
    "LAMBDA_GUARD": _lambda_kind,
}
