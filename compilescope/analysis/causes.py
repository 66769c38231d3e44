"""Explains recompiles: the kind of every failing guard, the closest entry, whether shapes drove it, what helps.

Pure functions over a recording. :func:`explain` takes one as capture left it, in which failing guards
are bare facts, and returns one in which they are causes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from compilescope.analysis.kinds import KINDS, SHAPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from compilescope.record import Compilation, EntryMiss, Failure, Recompile, Recording

_CLASSES: Final = ("module_type", "type", "tensor_type")
_ZERO_ONE: Final = ("0", "1")
_PROPERTY: Final = re.compile(
    r"(?:\.(?:size|stride|dim|storage_offset)\(\)(?:\[\d+\])?|\.(?:dtype|device|requires_grad|_base))$"
)

_TENSOR_PARTS: Final[Mapping[str, str]] = {
    "rank": "rank",
    "stride": "stride",
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
    "DICT_LENGTH": "dict_length",
    "MAPPING_KEYS_MATCH": "dict_keys",
    "SET_CONTAINS": "dict_keys",
    "TUPLE_ITERATOR_LEN": "list_length",
    "RANGE_ITERATOR_MATCH": "python_value",
    "FAKE_SCRIPT_TYPE_MATCH": "type",
    "NO_HASATTR": "attr_added",
    "UNKNOWN": "unknown",
}


def kind_of(failure: Failure) -> str:
    """Name the kind of one failing guard."""
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
        # An entry made for a size of 0 or 1 serves that size alone, whether or not the dimension is dynamic.
        return "zero_one" if failure.expected in _ZERO_ONE else "size"
    return _TENSOR_PARTS.get(failure.part or "", "unknown")


def _is_none(failure: Failure) -> bool:
    return "NoneType" in (failure.expected_type, failure.actual_type)


def _type_kind(failure: Failure) -> str:
    if _is_none(failure):
        return "none_vs_value"
    if failure.part == "module":
        return "module_type"
    return "tensor_type" if "Tensor" in (failure.expected_type, failure.actual_type) else "type"


def _identity_kind(failure: Failure) -> str:
    if _is_none(failure):
        return "none_vs_value"
    if failure.part == "member":
        return _value_kind(failure)
    # 2.11 does not tell the class of what it expects; a function then stands where there was one.
    told = failure.actual_type if failure.expected_type == "object" else failure.expected_type
    return "function_id" if told in _FUNCTIONS else "object_id"


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


def _equals_kind(failure: Failure) -> str:
    if failure.part == "key":
        return "dict_order"
    return "dict_keys" if failure.part == "missing_key" else _value_kind(failure)


def _length_kind(failure: Failure) -> str:
    return "dict_length" if failure.part == "dict" else "list_length"


def _contains_kind(failure: Failure) -> str:
    return "attr_added" if failure.part == "attribute" else "dict_keys"


def _missing_kind(failure: Failure) -> str:
    if failure.part != "missing":
        # The attribute is there, but not as the submodule, parameter or buffer that it was.
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
    "EQUALS_MATCH": _equals_kind,
    "TRUE_MATCH": _value_kind,
    "FALSE_MATCH": _value_kind,
    "FLOAT_IS_NAN": _value_kind,
    "COMPLEX_IS_NAN": _value_kind,
    "NONE_MATCH": lambda _: "none_vs_value",
    "NOT_NONE": lambda _: "none_vs_value",
    "LENGTH_CHECK": _length_kind,
    "DICT_CONTAINS": _contains_kind,
    "MISSING": _missing_kind,
    "LAMBDA_GUARD": _lambda_kind,
}


def classify(failure: Failure) -> Failure:
    """Return the failure with its kind and advice."""
    kind = kind_of(failure)
    return replace(failure, kind=kind, advice=KINDS[kind].advice.replace("{source}", _value_of(failure.source)))


def _value_of(source: str) -> str:
    """Return the value whose property a source is: advice speaks of ``x``, not of ``x.stride()[0]``."""
    return _PROPERTY.sub("", source)


def explain_entry(entry: EntryMiss) -> EntryMiss:
    """Return the entry with every failure classified, and what merely follows from another marked so."""
    failing = [classify(failure) for failure in entry.failing]
    return replace(entry, failing=tuple(_mark_consequences(failing)))


def _mark_consequences(failing: Sequence[Failure]) -> list[Failure]:
    changed = tuple(f for f in failing if f.guard_type == "TENSOR_MATCH" and f.part == "size")
    sized = {_value_of(name): name for f in failing if _is_of_shape(f) for name in (f.source, *f.symbols)}
    reshaped = {_value_of(f.source): f for f in failing if f.part in ("rank", "memory_format")}
    marked: list[Failure] = []
    roots: dict[tuple[str, str | None], Failure] = {}
    for failure in failing:
        cause = failure.consequence_of or _follows(failure, changed) or _follows_form(failure, reshaped)
        if cause is None and failure.part == "dense_stride":
            # The strides of a contiguous tensor are what its sizes make them: where those fail, these do.
            cause = sized.get(_value_of(failure.source))
        key = (failure.source, failure.kind)
        if cause is None and key in roots:
            # One change fails several guards of one value: an input that is no longer a view, a reordered dict.
            cause = failure.source
        marked.append(replace(failure, consequence_of=cause))
        if cause is None:
            roots[key] = failure
    return marked


def _follows_form(failure: Failure, reshaped: Mapping[str, Failure]) -> str | None:
    """Of a tensor of another rank no relation holds that speaks of it, and of another memory format none of strides."""
    if failure.guard_type == "TENSOR_MATCH" or failure.part == "base":
        return None
    for name in failure.symbols:
        form = reshaped.get(_value_of(name))
        if form is not None and (form.part == "rank" or ".stride()" in name):
            return form.source
    return None


def _is_of_shape(failure: Failure) -> bool:
    return KINDS[failure.kind or "unknown"].family == SHAPE


def _follows(failure: Failure, changed: Sequence[Failure]) -> str | None:
    """A relation between sizes fails along with the size that it stands for: one change, said once.

    It follows from a changed size that it speaks of, and from one that it was compiled into as a
    constant: ``rope.size()[0] == 1 + image.size()[1]`` holds a text length of 1, and with a text of 7
    it is off by the same 6.
    """
    if failure.guard_type == "TENSOR_MATCH" or not _is_of_shape(failure):
        return None
    for change in changed:
        if change.source in failure.symbols or failure.off_by == abs(int(change.expected) - int(change.actual)):
            return change.source
    return None


def roots_of(entry: EntryMiss) -> tuple[Failure, ...]:
    """Return the failures of an entry that follow from no other."""
    return tuple(failure for failure in entry.failing if failure.consequence_of is None)


def is_shape_only(roots: Iterable[Failure]) -> bool:
    """Whether there are roots and all of them are of shape kinds."""
    found = list(roots)
    return bool(found) and all(KINDS[failure.kind or "unknown"].shape_driven for failure in found)


def explain_recompile(recompile: Recompile) -> Recompile:
    """Choose the closest entry and say what kept it from serving."""
    entries = tuple(explain_entry(entry) for entry in recompile.entries)
    if not entries:
        return replace(recompile, shape_driven=None)
    roots = {entry.id: roots_of(entry) for entry in entries}
    newest_last = {entry.id: index for index, entry in enumerate(entries)}
    closest = min(entries, key=lambda e: (len(roots[e.id]), not is_shape_only(roots[e.id]), -newest_last[e.id]))
    return replace(
        recompile,
        entries=entries,
        closest=closest.id,
        causes=_decisive_first(roots[closest.id]),
        alternatives=_alternatives(closest.id, roots),
        shape_driven=any(is_shape_only(found) for found in roots.values()),
    )


def _decisive_first(roots: Sequence[Failure]) -> tuple[Failure, ...]:
    """Put what general shapes would not have avoided before what they would, and bounds, which say least, last.

    Of the former another class comes first: modules of another class tend to differ in a flag beside it, too.
    """

    def rank(failure: Failure) -> tuple[bool, bool, bool]:
        shape_driven = KINDS[failure.kind or "unknown"].shape_driven
        return shape_driven, failure.kind == "bound", failure.kind not in _CLASSES

    return tuple(sorted(roots, key=rank))


def _alternatives(closest: str, roots: Mapping[str, tuple[Failure, ...]]) -> tuple[str, ...]:
    """Return the other entries that would have served but for one family, one for each cause not yet told."""
    told = {_signature(roots[closest])}
    found: list[str] = []
    for identity, failures in reversed(list(roots.items())):
        families = {KINDS[failure.kind or "unknown"].family for failure in failures}
        signature = _signature(failures)
        if len(families) == 1 and signature not in told:
            told.add(signature)
            found.append(identity)
    return tuple(found)


def _signature(failures: Iterable[Failure]) -> frozenset[tuple[str, str]]:
    # By family: an entry off by the size of an input and one off by 0 or 1 of it are off by the same thing.
    return frozenset((KINDS[failure.kind or "unknown"].family, failure.source) for failure in failures)


def explain_compilation(compilation: Compilation) -> Compilation:
    """Return the compilation with its recompile explained, if it is one."""
    if compilation.recompile is None:
        return compilation
    return replace(compilation, recompile=explain_recompile(compilation.recompile))


def explain(recording: Recording) -> Recording:
    """Return the recording with every recompile explained. Explaining twice changes nothing."""
    return replace(recording, compilations=tuple(explain_compilation(c) for c in recording.compilations))
