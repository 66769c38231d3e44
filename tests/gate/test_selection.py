"""Which compilations a target stands for."""

from __future__ import annotations

from msgspec.structs import replace

from compilescope.gate.budget import Budget
from compilescope.gate.judge import judge
from compilescope.gate.selection import Scope, matches, stable_file
from compilescope.record import CodeObject, Target

from .making import BLOCK, LIBRARY, RESUMED, compiled, rules, sound, target

WRAPPER = CodeObject(
    id="utils.py:scale.<locals>.wrapper", qualname="scale.<locals>.wrapper", file="utils.py", line=3, owner="Flux, Wan"
)


def of_wrapper(selector: str, number: int) -> Target:
    return Target(selector=selector, status="compiled", compiles=number, codes=(WRAPPER.id,))


def test_wrapper_that_classes_share_counts_for_each_class_apart() -> None:
    runs = ("Flux", "Wan", "Wan")
    recording = sound(
        code_objects=(WRAPPER,),
        compilations=tuple(compiled(f"0/{n}", WRAPPER, owner=owner) for n, owner in enumerate(runs)),
        targets=(of_wrapper("Flux.forward", 1), of_wrapper("Wan.forward", 2)),
    )
    assert [len(group.compilations) for group in Scope(recording, ()).groups] == [1, 2]
    (found,) = judge(recording, Budget(max_compiles=1))
    assert found.message.startswith("Wan.forward was compiled 2 times")
    assert rules(replace(recording, targets=()), Budget(targets=("Flux.forward",), max_compiles=1)) == []


def test_wrapper_whose_owners_do_not_tell_counts_whole() -> None:
    recording = sound(
        code_objects=(WRAPPER,),
        compilations=tuple(compiled(f"0/{n}", WRAPPER, owner="Other") for n in range(3)),
        targets=(of_wrapper("Flux.forward", 1),),
    )
    assert rules(recording, Budget(max_compiles=2)) == ["CS201"]


def test_target_that_was_compiled_once_is_compiled() -> None:
    assert rules(sound(compilations=(compiled("0/0"),), targets=(target(compiles=1),)), Budget()) == []


def test_resume_function_is_named_after_what_it_resumes() -> None:
    recording = sound(
        code_objects=(BLOCK, RESUMED), compilations=(compiled("0/0"), compiled("1/0", RESUMED)), targets=()
    )
    assert [group.name for group in Scope(recording, ()).groups] == [
        "Block.forward",
        "Block.forward, resumed at line 44,",
    ]


def test_resume_function_of_a_resume_function_belongs_to_the_first() -> None:
    further = replace(RESUMED, id="further", line=50, resumes=RESUMED.id)
    scope = Scope(sound(code_objects=(BLOCK, RESUMED, further)), ())
    assert scope.key("further") == scope.key(RESUMED.id) == "resume function of src/pkg/model.py:Block.forward"


def test_resume_functions_in_a_circle_end() -> None:
    one, two = replace(BLOCK, resumes=RESUMED.id), RESUMED
    assert "resume function" in Scope(sound(code_objects=(one, two)), ()).key(one.id)


def test_code_that_the_recording_does_not_introduce_goes_by_its_id() -> None:
    scope = Scope(sound(code_objects=(), targets=()), ())
    assert (scope.name(LIBRARY.id), scope.key(LIBRARY.id)) == (LIBRARY.id, LIBRARY.id)
    assert rules(sound(code_objects=(), targets=()), Budget(targets=(BLOCK.id,))) == []


def test_what_was_compiled_instead_is_named_without_resume_functions_and_not_at_length() -> None:
    codes = [CodeObject(id=f"m.py:f{n}", qualname=f"f{n}", file="m.py", line=n) for n in range(7)]
    recording = sound(
        code_objects=(*codes, RESUMED), compilations=tuple(compiled(f"{n}/0", code) for n, code in enumerate(codes))
    )
    assert Scope(recording, ()).instead() == "these were compiled: f0, f1, f2, f3, f4 and 2 more"


def test_pattern_means_the_whole_name_or_what_follows_a_dot() -> None:
    assert matches("forward", ["Block.forward"])
    assert matches("Block.*", ["Block.forward"])
    assert not matches("ward", ["Block.forward"])
    assert not matches("block.forward", ["Block.forward"])


def test_file_outside_the_project_goes_by_its_name() -> None:
    assert stable_file("/home/ann/.venv/hub/model.py") == "model.py"
    assert stable_file("src/pkg/model.py") == "src/pkg/model.py"
