"""Limits: each finds what is over it, names it, and lets pass what is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge
from compilescope.record import Location, Parity
from compilescope.storage import merge

from .making import (
    BLOCK,
    LIBRARY,
    NORM,
    RESUMED,
    broken_at,
    cause,
    compiled,
    only,
    point,
    rules,
    sound,
    sweep,
    target,
)

SIZE = cause("size")
DTYPE = cause("dtype", "x")


def test_compiles_of_a_target() -> None:
    assert rules(sound(), Budget(max_compiles=2)) == []
    found = only(sound(), Budget(max_compiles=1))
    assert found.rule == "CS201"
    assert found.message == "Block.forward was compiled 2 times, 1 allowed"
    assert (found.file, found.line, found.amount) == ("src/pkg/model.py", 40, 2)


def test_resume_functions_are_counted_apart() -> None:
    recording = sound(
        code_objects=(BLOCK, RESUMED),
        compilations=(*sound().compilations, compiled("1/0", RESUMED), compiled("1/1", RESUMED, NORM)),
        targets=(target(compiles=2, resumed=2, codes=(BLOCK.id, RESUMED.id)),),
    )
    assert rules(recording, Budget(max_compiles=2, max_recompiles=1)) == []
    assert [f.code for f in judge(recording, Budget(max_compiles=1))] == [BLOCK.id, RESUMED.id]
    assert rules(recording, Budget(max_recompiles=0)) == ["CS202", "CS202"]


def test_resume_functions_have_a_key_without_a_line() -> None:
    recording = sound(code_objects=(RESUMED, BLOCK), compilations=(compiled("1/0", RESUMED),), targets=())
    assert only(recording, Budget(max_compiles=0)).key == "resume function of src/pkg/model.py:Block.forward"


def test_without_targets_every_code_object_is_held_to_the_limit() -> None:
    recording = sound(
        code_objects=(BLOCK, LIBRARY),
        compilations=(compiled("0/0"), compiled("1/0", LIBRARY), compiled("1/1", LIBRARY, DTYPE)),
        targets=(),
    )
    assert only(recording, Budget(max_compiles=1)).code == LIBRARY.id


def test_with_targets_other_code_may_compile_as_it_likes() -> None:
    recording = sound(
        code_objects=(BLOCK, LIBRARY), compilations=(*sound().compilations, compiled("1/1", LIBRARY, SIZE))
    )
    assert rules(recording, Budget(max_recompiles=1, no_shape_recompile=True)) == []


def test_recompiles_of_a_target() -> None:
    assert rules(sound(), Budget(max_recompiles=1)) == []
    found = only(sound(), Budget(max_recompiles=0))
    assert found.rule == "CS202"
    assert "recompiled once, 0 allowed: module_type of self.norm1 (PlainNorm -> ModulatedNorm)" in found.message
    assert (found.file, found.line) == ("src/pkg/model.py", 42), "it points to the line that made the guard"
    assert found.key == "src/pkg/model.py:Block.forward: module_type of self.norm1"


def test_recompile_has_one_key_in_whatever_order_its_causes_were_found() -> None:
    causes = [cause("size", f"x.size()[{place}]") for place in range(6)]
    keys = {
        only(sound(compilations=(compiled("0/0"), compiled("0/1", BLOCK, *found))), Budget(max_recompiles=0)).key
        for found in (causes, causes[::-1], causes[3:] + causes[:3])
    }
    assert keys == {"src/pkg/model.py:Block.forward: " + ", ".join(f"size of x.size()[{place}]" for place in range(6))}


def test_recompiles_with_one_cause_are_one_finding() -> None:
    sizes = [compiled(f"0/{n}", BLOCK, SIZE) for n in range(1, 8)]
    found = only(sound(compilations=(compiled("0/0"), *sizes), targets=()), Budget(max_recompiles=3))
    assert found.amount == 7
    assert "recompiled 7 times, 3 allowed: size of x.size()[1] (16 -> 24), as text_len changed" in found.message
    later = compiled("0/8", BLOCK, replace(SIZE, expected="24", actual="32"))
    told = only(sound(compilations=(compiled("0/0"), *sizes, later), targets=()), Budget(max_recompiles=3))
    assert told.amount == 8
    assert "recompiled 8 times, 3 allowed: size of x.size()[1] (16 -> 24)" in told.message, "the first is told"


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ({"module_type": 1}, []),
        ({"module_type": 0}, ["CS205"]),
        ({"dtype": 1}, ["CS202"]),
        ({}, ["CS202"]),
    ],
)
def test_kind_with_a_limit_of_its_own_is_counted_there(kinds: dict[str, int], expected: list[str]) -> None:
    assert rules(sound(), Budget(max_recompiles=0, max_recompiles_by_kind=kinds)) == expected


def test_recompile_with_a_further_kind_is_counted_in_both_places() -> None:
    recording = sound(compilations=(compiled("0/0"), compiled("0/1", BLOCK, NORM, DTYPE)))
    budget = Budget(max_recompiles=0, max_recompiles_by_kind={"module_type": 0})
    assert rules(recording, budget) == ["CS205", "CS202"]


def test_kind_is_limited_though_recompiles_as_such_are_not() -> None:
    assert rules(sound(), Budget(max_recompiles_by_kind={"module_type": 0})) == ["CS205"]


def test_shape_driven_recompile() -> None:
    recording = sound(compilations=(compiled("0/0"), compiled("0/1", BLOCK, SIZE)))
    found = only(recording, Budget(no_shape_recompile=True))
    assert found.rule == "CS203"
    assert "as shapes changed: size of x.size()[1] (16 -> 24)" in found.message
    assert rules(recording, Budget()) == []


def test_no_recompile_can_be_seen_where_the_cache_was_emptied_in_between() -> None:
    budget = Budget(no_shape_recompile=True)
    anew = sound(compilations=(compiled("0/0"), compiled("0/0#2")), targets=(), sweeps=())
    assert rules(anew, budget) == ["CS107"]
    assert rules(anew, Budget()) == []
    assert rules(replace(anew, compilations=(compiled("0/0"), compiled("1/0"))), budget) == []
    # Each of two recordings begins with an empty cache, and so does each of two sweeps.
    single = replace(anew, compilations=(compiled("0/0"),))
    assert rules(merge([single, single]), budget) == []
    assert rules(merge([anew, single]), budget) == ["CS107"]
    # What a workload compiles while it is built, before its first point, is no part of a sweep.
    at = (replace(compiled(name), point={"text_len": 4}) for name in ("0/0#2", "0/0#3"))
    swept = replace(anew, compilations=(replace(compiled("0/0"), point=None), *at))
    two = sweep(point(4), point(5))
    assert rules(replace(swept, sweeps=(two, two)), budget) == []
    assert rules(replace(swept, sweeps=(two,)), budget) == ["CS107"]


def test_recompile_that_is_said_to_be_shape_driven_is_so_whatever_its_entries() -> None:
    one = compiled("0/1", BLOCK, NORM)
    assert one.recompile is not None
    driven = replace(one, recompile=replace(one.recompile, shape_driven=True))
    assert rules(sound(compilations=(compiled("0/0"), driven)), Budget(no_shape_recompile=True)) == ["CS203"]


def test_recompiles_with_several_causes_share_the_count() -> None:
    both = (compiled("0/0"), compiled("0/1", BLOCK, SIZE), compiled("0/2", BLOCK, DTYPE), compiled("0/3", BLOCK, DTYPE))
    first, second = judge(sound(compilations=both), Budget(max_recompiles=1))
    assert "was recompiled 3 times, 1 allowed; once for size of x.size()[1]" in first.message
    assert "was recompiled 3 times, 1 allowed; 2 times for dtype of x" in second.message


def test_line_within_torch_is_not_pointed_to() -> None:
    inside = cause("dtype", "x", where=Location(file="torch/nn/modules/linear.py", line=134))
    found = only(sound(compilations=(compiled("0/0"), compiled("0/1", BLOCK, inside))), Budget(max_recompiles=0))
    assert (found.file, found.line) == ("src/pkg/model.py", 40)


@pytest.mark.parametrize("kind", ["unknown", "guard_error", None, "a_kind_of_the_future"])
def test_unknown_cause(kind: str | None) -> None:
    recording = sound(compilations=(compiled("0/0"), compiled("0/1", BLOCK, cause(kind))))
    found = only(recording, Budget())
    assert found.rule == "CS116"
    assert f"for an unknown reason: {kind or 'unknown'} of x.size()[1] (16 -> 24)" in found.message
    assert rules(recording, Budget(allow_unknown=True)) == []


def test_recompile_without_any_cause_is_unknown_and_counted() -> None:
    one = compiled("0/1", BLOCK, NORM)
    assert one.recompile is not None
    bare = replace(one, recompile=replace(one.recompile, causes=(), entries=(), shape_driven=None))
    recording = sound(compilations=(compiled("0/0"), bare))
    assert rules(recording, Budget(max_recompiles=0, no_shape_recompile=True)) == ["CS116", "CS114", "CS202"]
    allowed = Budget(max_recompiles=0, max_recompiles_by_kind={"module_type": 1}, allow_unknown=True)
    assert rules(recording, allowed) == ["CS202"]


def test_graph_breaks_are_listed_site_by_site() -> None:
    sites = (broken_at(line=44), broken_at(line=50), broken_at(file="diffusers/attn.py", line=9))
    found = judge(sound(graph_breaks=sites), Budget(max_graph_breaks=2))
    assert [(f.rule, f.line) for f in found] == [("CS301", 44), ("CS301", 50), ("CS301", 9)]
    assert found[0].message.startswith("3 graph breaks, 2 allowed: data_dependent_branch GB0170, 3 events: if mask")
    assert rules(sound(graph_breaks=sites), Budget(max_graph_breaks=3)) == []


def test_site_that_was_met_twice_is_one_site() -> None:
    recording = sound(graph_breaks=(broken_at(), broken_at()))
    assert rules(recording, Budget(max_graph_breaks=1)) == []
    assert "6 events" in only(recording, Budget(max_graph_breaks=0)).message


def test_own_graph_breaks_alone_are_limited() -> None:
    theirs = broken_at(file="diffusers/attn.py", line=9)
    budget = Budget(max_own_graph_breaks=0, own=("src/pkg",))
    assert rules(sound(graph_breaks=(theirs,)), budget) == []
    assert only(sound(graph_breaks=(theirs, broken_at())), budget).file == "src/pkg/model.py"
    one = Budget(max_own_graph_breaks=1, own=("src/pkg",))
    assert rules(sound(graph_breaks=(theirs, broken_at(events=1))), one) == []


def test_site_over_both_limits_is_told_once() -> None:
    sites = (broken_at(), broken_at(file="diffusers/attn.py", line=9))
    budget = Budget(max_graph_breaks=0, max_own_graph_breaks=0, own=("src/pkg",))
    assert rules(sound(graph_breaks=sites), budget) == ["CS302", "CS301"]


def test_break_has_a_key_without_a_line() -> None:
    near, far = (only(sound(graph_breaks=(broken_at(line=n),)), Budget(max_graph_breaks=0)).key for n in (44, 99))
    assert near == far == "data_dependent_branch in src/pkg/model.py:forward: if mask.any():"


def test_guards_of_the_largest_entry() -> None:
    recording = sound(compilations=(compiled("0/0"), compiled("0/1", BLOCK, NORM, guards=52)))
    found = only(recording, Budget(max_guards=51))
    assert (found.rule, found.amount) == ("CS502", 52)
    assert rules(recording, Budget(max_guards=52)) == []


def test_operators_are_those_of_the_largest_graph_of_each_code_object() -> None:
    both = target(compiles=3, codes=(BLOCK.id, LIBRARY.id))
    recording = sound(
        code_objects=(BLOCK, LIBRARY), compilations=(*sound().compilations, compiled("1/0", LIBRARY)), targets=(both,)
    )
    assert rules(recording, Budget(min_operators=12)) == []
    found = only(recording, Budget(min_operators=13))
    assert (found.rule, found.amount) == ("CS501", 1)
    assert "12 operators, at least 13 expected" in found.message


@pytest.mark.parametrize("operators", [(6, 9, 4), (9, 6, 4), (4, 6, 9)])
def test_largest_graph_counts_whenever_it_was_compiled(operators: tuple[int, ...]) -> None:
    made = [compiled("0/0", operators=operators[0])]
    made += [compiled(f"0/{place}", BLOCK, NORM, operators=more) for place, more in enumerate(operators[1:], start=1)]
    recording = sound(compilations=tuple(made), targets=(target(compiles=3),))
    assert rules(recording, Budget(min_operators=9)) == []
    assert only(recording, Budget(min_operators=10)).amount == 1


def test_time_is_gated_only_on_demand_and_never_in_a_baseline() -> None:
    assert rules(sound(), Budget(max_compile_seconds=1.0)) == []
    found = only(sound(), Budget(max_compile_seconds=0.9))
    assert (found.rule, found.key) == ("CS503", None)


def test_distance_from_eager_names_the_worst_point() -> None:
    def far(text_len: int, distance: float) -> object:
        return point(text_len, parity=Parity(max_abs=1.0, relative_l2=distance, psnr=9.0, bitwise=False))

    recording = sound(sweeps=(sweep(point(4), far(7, 0.02), far(77, 0.5)),))
    found = only(recording, Budget(max_relative_l2=0.01))
    assert found.rule == "CS504"
    assert "differs from eager by 5.00e-01 (relative L2) at text_len=77, 0.01 allowed; 2 points of 3" in found.message
    assert rules(recording, Budget(max_relative_l2=0.5)) == []
