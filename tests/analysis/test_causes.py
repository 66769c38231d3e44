"""The explaining of recompiles, on failures made by hand: kinds, roots, the closest entry, shape-driven, advice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from compilescope.analysis.causes import explain_recompile
from compilescope.analysis.failure_kinds import kind_of
from compilescope.analysis.kinds import KINDS
from compilescope.record import EntryMiss, Failure, Moved, Recompile


def failure(guard_type: str = "EQUALS_MATCH", source: str = "x", **facts: Any) -> Failure:
    base: dict[str, Any] = {"guard": f"{source} == 1", "expected": "1", "actual": "2"}
    return Failure(guard_type=guard_type, source=source, **(base | facts))


def size(source: str = "x.size()[0]", expected: str = "4", actual: str = "6") -> Failure:
    return failure("TENSOR_MATCH", source, part="size", expected=expected, actual=actual, holder="local")


def relation(*symbols: str, part: str = "relation", **facts: Any) -> Failure:
    return failure("LAMBDA_GUARD", ", ".join(symbols), part=part, symbols=symbols, **facts)


def stride(source: str = "x.stride()[0]", part: str = "stride") -> Failure:
    return failure("LAMBDA_GUARD", source, part=part, symbols=(source, "x.size()[0]"))


def value(expected_type: str | None, actual_type: str, holder: str = "local", **facts: Any) -> Failure:
    return failure(expected_type=expected_type, actual_type=actual_type, holder=holder, **facts)


def recompile(**entries: list[Failure]) -> Recompile:
    """Explain a recompile against entries named ``e0``, ``e1``..., oldest first."""
    misses = (EntryMiss(id=k, failing=tuple(v), confirmed=True) for k, v in entries.items())
    return explain_recompile(Recompile(entries=tuple(misses)))


CLASSIFIED: list[tuple[str, Failure]] = [
    ("size", size()),
    ("zero_one", size(expected="1")),
    ("zero_one", size(expected="0")),
    ("zero_one", size(actual="1")),
    ("zero_one", relation("x.size()[0]", part="at_least_two")),
    ("rank", failure("TENSOR_MATCH", "x.dim()", part="rank")),
    ("duck_size", relation("x.size()[0]", "y.size()[0]", part="duck")),
    ("divisibility", relation("x.size()[0]", part="divisible")),
    ("bound", relation("x.size()[0]", part="bound")),
    ("shape_relation", relation("x.size()[0]", "y.size()[0]", part="equal")),
    ("shape_relation", relation("x.size()[0]", "y.size()[0]")),
    ("size", relation("x.size()[0]", part="constant")),
    ("stride", failure("TENSOR_MATCH", "x.stride()[0]", part="stride")),
    ("stride", stride()),
    ("view_base", failure("LAMBDA_GUARD", "x._base", part="base", raised="AttributeError: ...")),
    ("storage_offset", failure("LAMBDA_GUARD", "x.storage_offset()", part="storage_offset")),
    ("memory_format", failure("TENSOR_MATCH", part="memory_format")),
    ("dtype", failure("TENSOR_MATCH", "x.dtype", part="dtype")),
    ("device", failure("TENSOR_MATCH", "x.device", part="device")),
    ("requires_grad", failure("TENSOR_MATCH", "x.requires_grad", part="requires_grad")),
    ("inference_tensor", failure("TENSOR_MATCH", part="inference")),
    ("dispatch_keys", failure("TENSOR_MATCH", part="dispatch_keys")),
    ("dispatch_keys", failure("DUAL_LEVEL_MATCH")),
    ("dispatch_keys", failure("LAMBDA_GUARD", part="functorch")),
    ("tensor_type", failure("TENSOR_MATCH", part="class", holder="local", actual_type="Parameter")),
    ("tensor_type", failure("TYPE_MATCH", expected_type="Tensor", actual_type="Tagged")),
    ("subclass_metadata", failure("LAMBDA_GUARD", part="subclass_metadata")),
    ("dim_marking", failure("DIMENSION_DYNAMIC_MARKING_GUARD")),
    ("python_int", value("int", "int")),
    ("python_int", value("int", "int", "tensor")),
    ("python_float", value("float", "float")),
    ("python_float", failure("FLOAT_IS_NAN", expected_type="float", actual_type="float", holder="local")),
    ("python_bool", failure("TRUE_MATCH", expected_type="bool", actual_type="bool", holder="local")),
    ("python_str", value("str", "str")),
    ("python_value", value("tuple", "tuple")),
    ("python_value", failure("ID_MATCH", part="member", expected_type="Mode", actual_type="Mode", holder="local")),
    ("none_vs_value", value("NoneType", "int")),
    ("none_vs_value", value("int", "NoneType")),
    ("none_vs_value", failure("NONE_MATCH")),
    ("none_vs_value", failure("TENSOR_MATCH", part="class", actual_type="NoneType")),
    ("none_vs_value", failure("TYPE_MATCH", expected_type="Linear", actual_type="NoneType")),
    ("type", failure("TENSOR_MATCH", part="class", holder="local", actual_type="int")),
    ("list_length", failure("LENGTH_CHECK")),
    ("list_length", failure("TUPLE_ITERATOR_LEN")),
    ("dict_length", failure("DICT_LENGTH", part="dict")),
    ("dict_length", failure("LENGTH_CHECK", part="dict")),
    ("dict_keys", failure("DICT_CONTAINS", part="keys")),
    ("dict_keys", failure("MISSING", part="missing", holder="dict")),
    ("dict_keys", failure("MISSING", part="keys")),
    ("dict_order", failure("MAPPING_KEYS_MATCH", part="order")),
    ("python_value", failure("SET_CONTAINS", part="members")),
    ("list_length", failure("MISSING")),
    ("module_attr", failure("MISSING", part="registered", expected_type="NoneType", actual_type="NoneType")),
    ("none_vs_value", failure("MISSING", part="registered", expected_type="NoneType", actual_type="Linear")),
    ("module_type", failure("TYPE_MATCH", part="module", expected_type="LayerNorm", actual_type="RMSNorm")),
    ("type", failure("TYPE_MATCH", expected_type="Doubler", actual_type="Halver")),
    ("object_id", failure("ID_MATCH", expected_type="Processor", actual_type="Processor")),
    ("object_id", failure("NO_TENSOR_ALIASING", part="aliasing")),
    ("object_id", failure("OBJECT_ALIASING", part="aliasing")),
    ("object_id", failure("STORAGE_OVERLAPPING")),
    ("object_id", relation("x", "y", part="aliasing")),
    ("function_id", failure("ID_MATCH", expected_type="function", actual_type="function")),
    ("function_id", failure("ID_MATCH", expected_type="code", actual_type="code")),
    ("function_id", failure("ID_MATCH", part="callable", expected_type="function", actual_type="partial")),
    ("none_vs_value", failure("ID_MATCH", part="callable", expected_type="function", actual_type="NoneType")),
    ("closure", value("int", "int", "closure")),
    ("module_attr_int", value("int", "int", "module", source="self.index")),
    ("module_attr_int", value(None, "int", "module", source="self.index")),
    ("module_attr", value("float", "float", "module", source="self.eps")),
    ("module_attr", value("float", "int", "module", source="self.eps")),
    ("module_attr", value("int", "float", "module", source="self.eps")),
    ("module_training", failure("TRUE_MATCH", "self.training", holder="module", actual_type="bool")),
    ("attr_str", value("str", "str", "module", source="self.mode")),
    ("attr_str", value("str", "str", "object", source="config.mode")),
    ("attr_changed", value("int", "int", "object", source="config.steps")),
    ("attr_added", failure("DICT_CONTAINS", part="attribute")),
    ("attr_added", failure("NO_HASATTR", part="attribute")),
    ("attr_added", failure("MISSING", part="missing", holder="module")),
    ("guard_error", failure("MISSING", part="missing", holder="local")),
    ("module_type", failure("MISSING", part="submodule", actual_type="Linear")),
    ("module_attr", failure("MISSING", part="buffer", actual_type="Tensor")),
    ("none_vs_value", failure("MISSING", part="submodule", actual_type="NoneType")),
    ("tensor_type", failure("MISSING", part="registered_tensor", actual_type="Tensor")),
    ("global", value("int", "int", "global", source="G['STEP']")),
    ("global_state", failure("GLOBAL_STATE", "grad_mode", part="grad_mode")),
    ("global_state", failure("TENSOR_MATCH", "inference_mode", part="inference_mode")),
    ("global_state", failure("LAMBDA_GUARD", part="saved_tensors_hooks")),
    ("torch_function_mode", failure("TORCH_FUNCTION_MODE_STACK")),
    ("default_device", failure("DEFAULT_DEVICE")),
    ("backend", failure("BACKEND_MATCH")),
    ("invalidated", failure("INVALIDATED")),
    ("concurrent", failure("CONCURRENT")),
    ("guard_error", relation("x.size()[0]", part="bound", raised="IndexError: ...")),
    ("guard_error", failure("LAMBDA_GUARD", part="value", raised="ValueError: ...")),
    ("guard_error", failure("SOME_LATER_GUARD", raised="ValueError: ...")),
    ("unknown", failure("SOME_LATER_GUARD")),
    ("unknown", failure("UNKNOWN")),
]


@pytest.mark.parametrize(
    ("kind", "found"), CLASSIFIED, ids=[f"{kind}-{f.guard_type}-{f.part}" for kind, f in CLASSIFIED]
)
def test_failure_is_of_its_kind(kind: str, found: Failure) -> None:
    assert kind_of(found) == kind


def test_every_kind_is_given_to_some_failure() -> None:
    assert {kind for kind, _ in CLASSIFIED} == set(KINDS)


# --- roots and consequences -----------------------------------------------------------------------


def causes(found: Recompile) -> list[tuple[str | None, str]]:
    return [(cause.kind, cause.source) for cause in found.causes]


def test_relation_follows_from_the_changed_size_that_it_speaks_of() -> None:
    found = recompile(e0=[relation("x.size()[0]", "y.size()[0]"), size()])
    assert causes(found) == [("size", "x.size()[0]")]
    assert (found.causes[0].places, found.causes[0].also) == (2, ())


def test_relation_between_other_sizes_is_a_cause_of_its_own() -> None:
    found = recompile(e0=[relation("y.size()[0]", "z.size()[0]"), size()])
    assert len(found.causes) == 2


def test_stride_of_a_contiguous_tensor_follows_from_a_relation_of_its_sizes() -> None:
    found = recompile(e0=[stride(part="dense_stride"), relation("x.size()[0]", "x.size()[1]")])
    assert causes(found) == [("shape_relation", "x.size()[0], x.size()[1]")]


def test_stride_of_a_slice_is_a_cause_beside_the_size() -> None:
    found = recompile(e0=[size(), stride()])
    assert causes(found) == [("stride", "x.stride()[0]"), ("size", "x.size()[0]")]
    assert not found.shape_driven


def test_stride_of_a_contiguous_tensor_alone_is_a_cause() -> None:
    assert causes(recompile(e0=[stride(part="dense_stride")])) == [("stride", "x.stride()[0]")]


def test_whatever_is_said_of_sizes_and_strides_follows_from_another_rank() -> None:
    rank = failure("TENSOR_MATCH", "x.dim()", part="rank")
    broken = relation("x.size()[2]", part="at_least_two", raised="IndexError: ...")
    found = recompile(e0=[broken, rank, stride()])
    assert causes(found) == [("rank", "x.dim()")]
    assert found.shape_driven


def test_view_is_a_cause_beside_another_rank() -> None:
    rank = failure("TENSOR_MATCH", "x.dim()", part="rank")
    base = failure("LAMBDA_GUARD", "x._base", part="base", symbols=("x._base.size()[0]", "x.size()[0]"))
    assert causes(recompile(e0=[rank, base])) == [("view_base", "x._base"), ("rank", "x.dim()")]


def test_many_relations_to_one_base_are_one_cause() -> None:
    bases = [
        failure("LAMBDA_GUARD", "x._base", part="base", symbols=(f"x._base.size()[{i}]",), raised="AttributeError: ...")
        for i in range(3)
    ]
    assert causes(recompile(e0=bases)) == [("view_base", "x._base")]


def test_what_capture_calls_a_consequence_stays_one() -> None:
    below = replace(value("float", "float", "module", source="norm.eps"), consequence_of="norm")
    above = failure("TYPE_MATCH", "norm", part="module", expected_type="LayerNorm", actual_type="RMSNorm")
    assert causes(recompile(e0=[above, below])) == [("module_type", "norm")]


def test_bound_comes_after_the_equation_it_follows_from() -> None:
    found = recompile(e0=[relation("x.size()[0]", part="bound"), relation("x.size()[0]", "x.size()[1]")])
    assert [kind for kind, _ in causes(found)] == ["shape_relation", "bound"]


# --- the closest entry ----------------------------------------------------------------------------


def test_entry_with_fewest_roots_is_closest() -> None:
    found = recompile(e0=[size()], e1=[size(), value("int", "int", source="n")])
    assert found.closest == "e0"


def test_consequences_do_not_count() -> None:
    found = recompile(e0=[size(), relation("x.size()[0]", "y.size()[0]")], e1=[value("int", "int", source="n"), size()])
    assert found.closest == "e0"


def test_entry_that_another_one_makes_up_for_is_not_closest() -> None:
    back, new = value("bool", "bool", source="off"), value("float", "float", source="scale")
    told = recompile(e0=[new], e1=[replace(back, accepted_elsewhere=True)])
    assert told.closest == "e0"
    assert recompile(e0=[new], e1=[back]).closest == "e1"


def test_entry_off_by_a_known_size_alone_is_closer_than_one_off_by_something_new() -> None:
    known = replace(size(), accepted_elsewhere=True)
    assert recompile(e0=[known], e1=[value("Tensor", "NoneType", source="mask")]).closest == "e0"


def test_type_that_another_entry_was_compiled_for_is_known() -> None:
    from_none = value("NoneType", "int", source="step", expected="None")
    moved = [value("int", "int", source="step"), value("int", "int", source="order")]
    assert recompile(e0=[from_none], e1=moved).closest == "e1"
    absent = failure("MISSING", "hook", part="missing", expected="absent", holder="module")
    changed = [value("partial", "functools.partial", source="hook"), value("int", "int", source="order")]
    assert recompile(e0=[absent], e1=changed).closest == "e1"
    other_type = [value("partial", "method", source="hook"), value("int", "int", source="order")]
    assert recompile(e0=[absent], e1=other_type).closest == "e0"


def test_one_known_type_is_nearer_than_several_known_values() -> None:
    from_none = value("NoneType", "float", source="scale", expected="None")
    back = [
        replace(value("str", "str", source="mode"), accepted_elsewhere=True),
        replace(failure("TENSOR_MATCH", "x.dtype", part="dtype"), accepted_elsewhere=True),
    ]
    assert recompile(e0=[from_none], e1=[value("float", "float", source="scale"), *back]).closest == "e0"


def test_dispatch_keys_follow_from_the_class_of_a_tensor() -> None:
    keys = failure("TENSOR_MATCH", "self.weight", part="dispatch_keys")
    retyped = failure("TENSOR_MATCH", "self.weight", part="class", holder="module", actual_type="Int8Tensor")
    told = recompile(e0=[retyped, keys])
    assert [cause.kind for cause in told.causes] == ["tensor_type"]
    assert [cause.kind for cause in recompile(e0=[keys]).causes] == ["dispatch_keys"]


def test_old_static_size_is_no_alternative_to_what_bars_the_dynamic_entry() -> None:
    divided = relation("x.size()[0]", part="divisible")
    assert recompile(e0=[size()], e1=[divided]).alternatives == ()
    assert recompile(e0=[size("y.size()[0]")], e1=[divided]).alternatives == ("e0",)
    alike = [size("a.size()[0]"), size("x.size()[0]")]
    assert recompile(e0=alike, e1=[divided]).alternatives == (), "one of the equal sizes bars both"
    assert recompile(e0=alike, e1=[relation("z.size()[0]", part="divisible")]).alternatives == ("e0",)
    both = [divided, relation("y.size()[0]", part="bound")]
    assert recompile(e0=[size()], e1=both).alternatives == ()


def test_lists_that_grew_in_two_ways_are_two_changes() -> None:
    def grew(place: int, expected: str, actual: str) -> Failure:
        return failure("LENGTH_CHECK", f"lists[{place}]", expected=expected, actual=actual)

    assert len(recompile(e0=[grew(0, "1", "2"), grew(1, "1", "2")]).causes) == 1
    assert len(recompile(e0=[grew(0, "1", "2"), grew(1, "3", "4")]).causes) == 2


def test_relation_is_off_by_no_size_whose_change_is_unknown() -> None:
    joint = relation("joint.size()[0]", "image.size()[1]", part="equal", off_by=2)
    for was, now in ((4, None), (None, 6), (None, None)):
        unknown = replace(size(), moved=(Moved(source="x.size()[0]", was=was, now=now),))
        assert len(recompile(e0=[unknown, joint]).causes) == 2
    known = replace(size(), moved=(Moved(source="x.size()[0]", was=4, now=6),))
    assert len(recompile(e0=[known, joint]).causes) == 1


def test_what_surrounds_the_call_is_the_first_cause() -> None:
    mode = failure("GLOBAL_STATE", "grad_mode", part="grad_mode", holder="ambient")
    told = recompile(e0=[failure("TENSOR_MATCH", "x.requires_grad", part="requires_grad"), mode])
    assert [cause.source for cause in told.causes] == ["grad_mode", "x.requires_grad"]


def test_among_equals_the_one_off_by_shape_wins_and_then_the_newest() -> None:
    dtype = failure("TENSOR_MATCH", "x.dtype", part="dtype")
    assert recompile(e0=[size()], e1=[dtype]).closest == "e0"
    assert recompile(e0=[size()], e1=[size(expected="5")], e2=[dtype]).closest == "e1"


def test_among_equals_the_one_that_was_used_last_wins_whichever_was_compiled_last() -> None:
    def closest(*recencies: int | None) -> str | None:
        entries = (
            EntryMiss(id=f"e{place}", failing=(size(expected=str(place + 10)),), recency=recency)
            for place, recency in enumerate(recencies)
        )
        return explain_recompile(Recompile(entries=tuple(entries))).closest

    assert closest(0, 1, 2) == "e0"
    assert closest(2, 0, 1) == "e1"
    assert closest(None, None, None) == "e2"


def test_other_entries_off_by_one_change_are_alternatives_once_if_torch_confirms_it() -> None:
    dtype = failure("TENSOR_MATCH", "x.dtype", part="dtype")
    found = recompile(e0=[size()], e1=[dtype], e2=[dtype], e3=[dtype, value("int", "int", source="n")])
    assert found.alternatives == ("e2",)
    unsure = explain_recompile(replace(found, entries=tuple(replace(entry, confirmed=None) for entry in found.entries)))
    assert unsure.alternatives == ()
    assert found.closest == "e0"


@pytest.mark.parametrize(
    ("entries", "shape_driven"),
    [
        ({"e0": [size()]}, True),
        ({"e0": [size(), value("int", "int", source="n")]}, False),
        ({"e0": [size()], "e1": [value("int", "int", source="n")]}, True),
        ({"e0": [value("int", "int", source="n")], "e1": [size(), failure("TENSOR_MATCH", part="dtype")]}, False),
    ],
)
def test_shape_drives_where_some_entry_fails_on_shape_alone(
    entries: dict[str, list[Failure]],
    shape_driven: bool,  # noqa: FBT001 (a parameter of the test)
) -> None:
    assert recompile(**entries).shape_driven is shape_driven


def test_entry_that_was_thrown_away_is_closest_only_where_there_is_no_other() -> None:
    thrown_away = failure("INVALIDATED", "cache entry")
    assert recompile(e0=[size(), value("int", "int", source="n")], e1=[thrown_away]).closest == "e0"
    assert recompile(e0=[thrown_away]).closest == "e0"


def test_nothing_is_claimed_where_no_entry_could_be_examined() -> None:
    found = explain_recompile(Recompile(entries=()))
    assert (found.closest, found.causes, found.shape_driven) == (None, (), None)


# --- properties -----------------------------------------------------------------------------------

FAILURES = st.sampled_from([found for _, found in CLASSIFIED])
ENTRIES = st.lists(st.lists(FAILURES, min_size=1, max_size=5), min_size=1, max_size=4)


def _explained(entries: list[list[Failure]]) -> Recompile:
    return recompile(**{f"e{index}": failing for index, failing in enumerate(entries)})


@given(ENTRIES)
def test_explaining_twice_changes_nothing(entries: list[list[Failure]]) -> None:
    once = _explained(entries)
    assert explain_recompile(once) == once


@given(ENTRIES)
def test_every_recompile_has_a_cause_of_known_kind_with_advice(entries: list[list[Failure]]) -> None:
    found = _explained(entries)
    assert found.causes
    for cause in found.causes:
        assert cause.kind in KINDS
        assert cause.advice
        assert "{source}" not in cause.advice


@given(ENTRIES)
def test_no_failure_is_lost_and_each_consequence_has_a_cause(entries: list[list[Failure]]) -> None:
    found = _explained(entries)
    assert [len(entry.failing) for entry in found.entries] == [len(failing) for failing in entries]
    for entry in found.entries:
        assert any(f.consequence_of is None for f in entry.failing)


@given(ENTRIES)
def test_closest_entry_is_not_an_alternative_to_itself(entries: list[list[Failure]]) -> None:
    found = _explained(entries)
    assert found.closest not in found.alternatives
    assert len(set(found.alternatives)) == len(found.alternatives)


@given(ENTRIES)
def test_one_more_entry_off_by_shape_alone_makes_it_shape_driven_unless_one_matches(
    entries: list[list[Failure]],
) -> None:
    found = _explained([*entries, [size("z.size()[0]")]])
    assert found.shape_driven is not any(cause.kind == "concurrent" for cause in found.causes)
