"""The arguments of marks: what each becomes in a budget, and one sentence for each that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from compilescope.analysis.kinds import KINDS
from compilescope.errors import UsageError
from compilescope.gate.budget import Budget
from compilescope.plugin.arguments import ARGUMENTS
from compilescope.plugin.marks import Claim, read_mark


def function() -> None: ...


@pytest.mark.parametrize(
    ("mark", "args", "kwargs", "limits"),
    [
        ("no_shape_recompile", ("Block.forward",), {}, {"no_shape_recompile": True}),
        (
            "no_shape_recompile",
            (),
            {"targets": function, "allow_fallbacks": "stance"},
            {"no_shape_recompile": True, "allow_fallbacks": ("stance",)},
        ),
        ("compile_budget", (), {"compiles": 2, "recompiles": 0}, {"max_compiles": 2, "max_recompiles": 0}),
        ("compile_budget", (), {"seconds": 1}, {"max_compile_seconds": 1.0}),
        ("compile_budget", (), {"operators": 3, "guards": 9}, {"min_operators": 3, "max_guards": 9}),
        ("compile_budget", (), {"own_graph_breaks": 0, "own": "src"}, {"max_own_graph_breaks": 0, "own": ("src",)}),
        (
            "compile_budget",
            (),
            {"graph_breaks": 1, "allow_unknown": True, "allow_uncompiled": ["f"]},
            {"max_graph_breaks": 1, "allow_unknown": True, "allow_uncompiled": ("f",)},
        ),
        ("max_graph_breaks", (3,), {}, {"max_graph_breaks": 3}),
        ("max_graph_breaks", (0,), {"own": ["src"]}, {"max_own_graph_breaks": 0, "own": ("src",)}),
    ],
)
def test_mark_sets_limits_of_a_budget(
    mark: str, args: tuple[object, ...], kwargs: dict[str, Any], limits: dict[str, Any]
) -> None:
    claim = read_mark(mark, args, kwargs)
    assert dict(claim.limits) == limits
    assert claim.broken is None
    Budget(**claim.limits)


def test_targets_by_position_and_by_keyword_are_joined() -> None:
    claim = read_mark("compile_budget", ("a",), {"targets": ["b", function], "compiles": 1})
    assert claim.targets == ("a", "b", function)


class Holder:
    def method(self) -> None: ...


@pytest.mark.parametrize(
    ("mark", "args", "kwargs", "written"),
    [
        ("no_shape_recompile", ("Block.forward",), {}, "no_shape_recompile('Block.forward')"),
        ("no_shape_recompile", (), {"targets": Holder}, "no_shape_recompile(targets=Holder)"),
        ("no_shape_recompile", (Holder.method,), {"broken": "why"}, "no_shape_recompile(Holder.method)"),
        ("no_shape_recompile", (Holder(),), {"targets": ("a",)}, "no_shape_recompile(Holder(...), targets=('a',))"),
        ("max_graph_breaks", (0,), {"own": ["src"]}, "max_graph_breaks(0, own=['src'])"),
        (
            "compile_budget",
            ("a",),
            {"targets": ["b", function], "kinds": {"size": 1}, "seconds": 1.5, "allow_unknown": True},
            "compile_budget('a', targets=['b', function], kinds={'size': 1}, seconds=1.5, allow_unknown=True)",
        ),
    ],
)
def test_mark_is_echoed_as_it_was_written(
    mark: str, args: tuple[object, ...], kwargs: dict[str, Any], written: str
) -> None:
    assert str(read_mark(mark, args, kwargs)) == written


def test_class_within_a_function_is_echoed_without_the_function() -> None:
    class Local: ...

    assert str(read_mark("no_shape_recompile", (Local,), {})) == "no_shape_recompile(Local)"


def test_a_kind_that_is_not_named_may_cause_no_recompile() -> None:
    limits = read_mark("compile_budget", (), {"kinds": {"module_type": 1}}).limits["max_recompiles_by_kind"]
    assert limits.keys() == KINDS.keys()
    assert limits["module_type"] == 1
    assert {limit for kind, limit in limits.items() if kind != "module_type"} == {0}


def test_own_folders_come_from_the_settings_where_the_mark_names_none() -> None:
    assert read_mark("compile_budget", (), {"own_graph_breaks": 0}, own=("src",)).limits["own"] == ("src",)
    given = read_mark("compile_budget", (), {"own_graph_breaks": 0, "own": "lib"}, own=("src",))
    assert given.limits["own"] == ("lib",)


def test_reason_for_being_broken_is_kept() -> None:
    assert read_mark("max_graph_breaks", (0,), {"broken": "a print"}).broken == "a print"
    assert read_mark("max_graph_breaks", (0,), {"broken": None}).broken is None


@pytest.mark.parametrize(
    ("mark", "args", "kwargs", "says"),
    [
        ("no_shape_recompile", (), {}, "needs a target"),
        ("no_shape_recompile", ("",), {}, "an empty target"),
        ("no_shape_recompile", (3,), {}, "cannot take 3 as a target"),
        ("no_shape_recompile", (None,), {}, "cannot take None as a target"),
        ("no_shape_recompile", (["a"],), {}, r"cannot take \['a'\] as a target"),
        ("no_shape_recompile", ("a",), {"compiles": 1}, "no argument 'compiles'. It has targets, "),
        ("no_shape_recompile", ("a",), {"brokn": "x"}, "no argument 'brokn'. Did you mean broken?"),
        ("no_shape_recompile", ("a",), {"broken": True}, "broken must be the reason"),
        ("no_shape_recompile", ("a",), {"broken": " "}, "broken must be the reason"),
        ("no_shape_recompile", ("a",), {"allow_unknown": "yes"}, "allow_unknown must be True or False"),
        ("no_shape_recompile", ("a",), {"allow_fallbacks": []}, "must be a string or a list of strings"),
        ("compile_budget", ("a",), {}, "limits nothing: give compiles, "),
        ("compile_budget", ("a",), {"allow_unknown": True}, "limits nothing"),
        ("compile_budget", ("a",), {"own": "src"}, "limits nothing"),
        ("compile_budget", ("a",), {"compile": 1}, "Did you mean compiles"),
        ("compile_budget", ("a",), {"compiles": -1}, "compiles must be a whole number, 0 or more"),
        ("compile_budget", ("a",), {"compiles": True}, "compiles must be a whole number, 0 or more"),
        ("compile_budget", ("a",), {"compiles": 1.5}, "compiles must be a whole number, 0 or more"),
        ("compile_budget", ("a",), {"seconds": float("nan")}, "seconds must be a number of seconds"),
        ("compile_budget", ("a",), {"seconds": float("inf")}, "seconds must be a number of seconds"),
        ("compile_budget", ("a",), {"kinds": ["size"]}, "kinds must be a dict"),
        ("compile_budget", ("a",), {"kinds": {"sizes": 1}}, "'sizes' is none. Did you mean size"),
        ("compile_budget", ("a",), {"kinds": {"size": -1}}, "kinds must be a whole number"),
        ("compile_budget", ("a",), {"own_graph_breaks": 0}, r"needs own=\["),
        ("max_graph_breaks", (), {}, "takes one argument"),
        ("max_graph_breaks", (1, "a"), {}, "takes one argument"),
        ("max_graph_breaks", ("a",), {}, "takes one argument"),
        ("max_graph_breaks", (-1,), {}, "takes one argument"),
    ],
)
def test_wrong_argument_is_told_in_a_sentence(
    mark: str, args: tuple[object, ...], kwargs: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        read_mark(mark, args, kwargs)
    text = str(caught.value)
    assert text.endswith((".", "?"))
    assert "\n" not in text


def test_every_argument_sets_a_field_of_the_budget() -> None:
    fields = set(Budget.__struct_fields__)
    for arguments in ARGUMENTS.values():
        assert {argument.budget for argument in arguments.values()} <= fields


def test_claim_without_targets_reads_as_a_call() -> None:
    assert str(Claim("freeze")) == "freeze()"
