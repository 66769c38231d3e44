"""The vocabulary of causes is whole: every kind of the contract, with a family, a meaning and advice."""

from __future__ import annotations

import pytest

from compilescope.analysis.kinds import KINDS, Kind

FAMILIES = {
    "shape": {"size", "zero_one", "rank", "duck_size", "divisibility", "bound", "shape_relation"},
    "layout": {"stride", "view_base", "storage_offset", "memory_format"},
    "tensor": {
        "dtype",
        "device",
        "requires_grad",
        "inference_tensor",
        "dispatch_keys",
        "tensor_type",
        "subclass_metadata",
        "dim_marking",
    },
    "value": {"python_int", "python_float", "python_bool", "python_str", "none_vs_value", "python_value"},
    "container": {"list_length", "dict_keys", "dict_order", "dict_length"},
    "object": {"module_type", "type", "object_id", "function_id", "closure"},
    "attribute": {"module_attr_int", "module_attr", "module_training", "attr_added", "attr_changed", "attr_str"},
    "ambient": {
        "global",
        "global_state",
        "torch_function_mode",
        "default_device",
        "backend",
        "invalidated",
        "concurrent",
    },
    "last resort": {"guard_error", "unknown"},
}


def test_kinds_are_those_of_the_contract_each_in_its_family() -> None:
    families: dict[str, set[str]] = {}
    for kind in KINDS.values():
        families.setdefault(kind.family, set()).add(kind.name)
    assert families == FAMILIES


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_shape_family_alone_is_shape_driven(kind: Kind) -> None:
    assert kind.shape_driven == (kind.name in FAMILIES["shape"])


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_kind_says_in_a_sentence_what_it_is_and_in_a_line_what_helps(kind: Kind) -> None:
    assert kind.meaning.endswith(".")
    assert kind.advice
    assert "\n" not in kind.advice
    assert set(kind.advice.split("{")[1:]) <= {
        part for part in kind.advice.split("{")[1:] if part.startswith("source}")
    }
