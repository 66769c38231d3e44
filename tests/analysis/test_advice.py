"""Advice follows the facts of a run: what is set is not advised again, and what cannot help is not advised at all."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compilescope.analysis.advice import Facts, advise, advise_recording, choose, facts_of
from compilescope.analysis.advice_breaks import for_break, for_error
from compilescope.analysis.kinds import KINDS
from compilescope.analysis.sentences import SENTENCES
from compilescope.record import (
    CodeObject,
    Compilation,
    CompileError,
    EntryMiss,
    Failure,
    GraphBreak,
    Location,
    Meta,
    Recompile,
    Recording,
)
from compilescope.storage import from_json, to_json

LINE = Location(file="model.py", line=12, text='name = f"rows_{image.shape[0]}"')


def cause(
    kind: str, source: str = "image.size()[0]", expected: str = "4", actual: str = "6", **more: object
) -> Failure:
    settings: dict[str, object] = {"guard_type": "TENSOR_MATCH", "guard": "", "part": "size"}
    return Failure(kind=kind, source=source, expected=expected, actual=actual, **(settings | more))


def facts(**more: object) -> Facts:
    return Facts(**({"torch": (2, 13)} | more))


def name(failure: Failure, **more: object) -> str:
    return choose(failure, facts(**more)).name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", ["True", "False", "automatic"])
def test_every_kind_has_advice_with_all_its_words_filled_in(kind: str, dynamic: str) -> None:
    text = advise(cause(kind), facts(dynamic={"True": True, "False": False}.get(dynamic)))
    assert text
    assert "{" not in text
    assert "\n" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_true_is_not_advised_where_it_is_set(kind: str) -> None:
    for use in ("arithmetic", "branch", "constant", None):
        for value in ("int", "float"):
            failure = cause(kind, expected_type=value, actual_type=value, use=use)
            assert "compile with dynamic=True" not in advise(failure, facts(dynamic=True))


def test_size_that_a_line_pins_names_the_line_and_no_setting() -> None:
    text = advise(cause("size", pinned_by=LINE), facts(dynamic=None))
    assert text.startswith('model.py:12 fixes this size (name = f"rows_{image.shape[0]}")')
    assert "compile with dynamic=True" not in text


def test_size_under_dynamic_true_is_pinned_though_nobody_saw_where() -> None:
    assert name(cause("size"), dynamic=True) == "pinned_somewhere"
    assert name(cause("size"), dynamic=None) == "dynamic"
    assert name(cause("size"), dynamic=False) == "dynamic_instead"


def test_adapters_are_swapped_in_place_by_diffusers_alone() -> None:
    rank = cause("size", "self.lora_A['d'].weight.size()[0]", expected_type="Parameter")
    assert name(rank, library="diffusers") == "lora_rank"
    assert name(rank, library="transformers") == "static_parameter"
    switched = cause("requires_grad", "self.lora_A['d'].weight.requires_grad", expected_type="Parameter")
    assert name(switched, library="diffusers") == "requires_grad_parameter"
    assert name(switched, library="diffusers", causes=(switched,)) == "requires_grad_parameter"
    assert name(switched, library="diffusers", causes=(rank, switched)) == "lora_rank"


def test_parameters_that_change_together_are_all_named() -> None:
    unfrozen = cause(
        "requires_grad", "self.bias.requires_grad", also=("self.weight.requires_grad",), expected_type="Parameter"
    )
    assert "requires_grad_() on self.bias, self.weight before" in advise(unfrozen, facts())


def test_dimensions_that_were_equal_before_are_marked_together() -> None:
    one = cause("zero_one", expected=">= 2", actual="1")
    equal = (frozenset({"image.size()[0]", "text.size()[0]"}),)
    assert "all of them: image.size()[0], text.size()[0]" in advise(one, facts(together=equal))
    assert "on this dimension" in advise(one, facts())


def test_size_that_shares_a_symbol_with_what_a_line_fixes_is_not_said_to_be_fixed() -> None:
    line = Location(file="m.py", line=3, text="key = linear(text)")
    shared = cause("size", pinned_by=line, pinned_with=("text.size()[1]",))
    assert name(shared, dynamic=True) == "pinned_by_chance"
    along = cause("size", "text.size()[1]")
    assert name(shared, dynamic=True, causes=(shared, along)) == "pinned"


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("if rows == 4:", True),
        ("elif rows:", True),
        ("last = step == len(steps) - 1", True),
        ("return x if last else y", True),
        ("name = f'rows_{rows}'", False),
        ("if f'{rows}' == name:", False),
        ("if rows in TABLE:", False),
        ("slot = TABLE[rows]", False),
        ("", False),
    ],
)
def test_line_that_decides_by_a_size_has_a_graph_for_each_answer(text: str, decides: bool) -> None:  # noqa: FBT001 (a column)
    pinned = cause("size", pinned_by=Location(file="m.py", line=3, text=text))
    assert name(pinned, dynamic=True) == ("pinned_compared" if decides else "pinned")
    number = cause("python_int", pinned_by=Location(file="m.py", line=3, text=text))
    assert name(number) == ("number_compared" if decides else "constant_expected")


def test_number_in_a_relation_is_dynamic_already() -> None:
    related = cause("attr_changed", expected_type="int", actual_type="int", symbols=("self.step", "x.size()[0]"))
    assert name(related) == "shape_relation"


def test_int_of_a_plain_object_is_freed_by_dynamic_true_alone() -> None:
    step = cause("attr_changed", "self.step", expected_type="int", actual_type="int", use="arithmetic")
    assert name(step) == "number"
    assert name(replace(step, of_module=True)) == "module_int"


def test_equal_dimensions_are_marked_together_in_one_order() -> None:
    image, text = cause("size"), cause("size", "text.size()[0]")
    other = cause("size", "mask.size()[0]", "5", "7")
    told = {advise(failure, facts(causes=(image, text, other))) for failure in (image, text)}
    assert len(told) == 1
    assert "these equal dimensions, all of them: image.size()[0], text.size()[0] before" in told.pop()
    assert "on this dimension" in advise(other, facts(causes=(image, text, other)))
    also = cause("size", also=("a.size()[0]", "b.size()[0]", "c.size()[0]"))
    assert "a.size()[0], b.size()[0], c.size()[0] and 1 more" in advise(also, facts())


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (cause("size", "self.weight.size()[0]", expected_type="Parameter"), "static_parameter"),
        (cause("size", "self.table.size()[0]", registered="buffer"), "static_parameter"),
        (cause("zero_one", "self.weight.size()[0]", "1", expected_type="Parameter"), "static_parameter"),
        (cause("size", "self.lora_A['d'].weight.size()[0]", expected_type="Parameter"), "static_parameter"),
        (cause("size", "self.lora_scale.size()[0]"), "dynamic"),
        (cause("size", marked="static"), "marked_static"),
        (cause("size", actual="1"), "zero_one"),
        (cause("size", expected="0"), "zero_one"),
    ],
)
def test_size_is_told_by_what_carries_it_and_which_it_is(failure: Failure, sentence: str) -> None:
    assert name(failure) == sentence


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({}, "zero_one"),
        ({"dynamic": True}, "zero_one"),
        ({"backend": "inductor"}, "zero_one"),
        ({"config": {"backed_size_oblivious": True}, "dynamic": True}, "zero_one_expected"),
        ({"config": {"backed_size_oblivious": True}}, "zero_one"),
        ({"config": {"backed_size_oblivious": True}, "dynamic": True, "backend": "inductor"}, "zero_one_cached"),
        ({"asked": frozenset({"image.size()[0]"})}, "zero_one_branched"),
        ({"asked": frozenset({"text.size()[0]"})}, "zero_one"),
    ],
)
def test_zero_one_is_told_by_what_is_set_and_what_the_code_asks(known: dict[str, object], sentence: str) -> None:
    assert name(cause("zero_one", actual="1"), **known) == sentence


def test_zero_one_that_a_line_pins_names_the_line() -> None:
    assert advise(cause("zero_one", actual="1", pinned_by=LINE), facts()).startswith("model.py:12 fixes this size")


def test_zero_one_of_an_unbacked_dimension_is_expected() -> None:
    assert name(cause("zero_one", actual="1", marked="unbacked")) == "zero_one_expected"


def test_zero_one_says_what_inductor_and_dynamic_true_do_to_it() -> None:
    plain = advise(cause("zero_one", actual="1"), facts())
    assert "Inductor" not in plain
    assert "broadcast" not in plain
    assert "empty Inductor's cache on disk" in advise(cause("zero_one", actual="1"), facts(backend="inductor"))
    assert "not with dynamic=True" in advise(cause("zero_one", actual="1"), facts(dynamic=True))


@pytest.mark.parametrize(
    ("actual", "guard", "sentence"),
    [("1", "2 <= s0", "zero_one"), ("1", "3 <= s0", "bound"), ("17", "s0 <= 16", "bound")],
)
def test_bound_that_only_keeps_zero_and_one_out_is_told_as_these(actual: str, guard: str, sentence: str) -> None:
    assert name(cause("bound", actual=actual, part="bound", guard=guard, where=LINE)) == sentence


def test_empty_tensor_is_told_by_the_dimension_that_is_empty() -> None:
    assert name(cause("zero_one", "image.size()[0]", "4", "0")) == "zero_one"
    assert name(cause("zero_one", "image.size()[1]", "4", "0")) == "zero_inside"
    assert name(cause("zero_one", "image.size()[1]", "0", "4")) == "zero_inside"
    assert name(cause("zero_one", "image.size()[1]", "4", "1")) == "zero_one"


@pytest.mark.parametrize(
    ("version", "argument"), [((2, 11), None), ((2, 13), "shapes_spec="), ((2, 14), "dynamic_shapes=")]
)
def test_spec_of_sizes_is_named_as_this_torch_spells_it(version: tuple[int, int], argument: str | None) -> None:
    text = advise(cause("zero_one", actual="1"), facts(torch=version))
    assert ("ShapeVar" in text) == (argument is not None)
    assert argument is None or argument in text
    assert "ShapeVar" not in advise(cause("zero_one", "self.cache.size()[0]", actual="1"), facts(torch=version))


@pytest.mark.parametrize(
    ("kind", "use", "known", "sentence"),
    [
        ("python_int", "arithmetic", {}, "number"),
        ("python_int", None, {}, "number_unread"),
        ("python_int", "branch", {}, "number_branched"),
        ("python_int", "branch", {"dynamic": True}, "side_expected"),
        ("python_int", "constant", {}, "constant_expected"),
        ("python_float", "arithmetic", {"dynamic": True}, "number_as_tensor"),
        ("python_float", None, {"dynamic": True}, "constant_or_tensor"),
        ("module_attr_int", "arithmetic", {}, "module_int"),
        ("module_attr_int", None, {}, "module_int_unread"),
        ("module_attr_int", "branch", {}, "module_int_branched"),
        ("module_attr_int", "constant", {}, "constant_expected"),
        ("module_attr_int", "arithmetic", {"config": {"allow_unspec_int_on_nn_module": True}}, "number"),
        ("module_attr_int", "branch", {"config": {"allow_unspec_int_on_nn_module": True}}, "number_branched"),
        ("global", "arithmetic", {}, "global_number"),
        ("global", "branch", {}, "global_branched"),
        ("global", "constant", {}, "constant_expected"),
        ("closure", "arithmetic", {}, "number"),
        ("attr_changed", "arithmetic", {}, "number"),
        ("module_attr", "arithmetic", {}, "number"),
    ],
)
def test_number_is_told_by_what_the_code_does_with_it(
    kind: str, use: str | None, known: dict[str, object], sentence: str
) -> None:
    failure = cause(kind, "factor", part=None, expected_type="int", actual_type="int", use=use)
    assert name(failure, **known) == sentence


def test_number_that_the_code_needs_is_told_with_the_line_that_needs_it() -> None:
    number = cause("python_int", "n", part=None, use="constant", expected_type="int", actual_type="int")
    at = replace(number, pinned_by=Location(file="model.py", line=12, text="if n == 3:"))
    assert (name(number), name(at)) == ("constant_expected", "constant_expected")
    assert "needs n as a constant (a loop" in advise(number, facts())
    assert "needs n as a constant at model.py:12 (a loop" in advise(at, facts())


def test_value_of_a_closure_that_is_no_number_is_a_constant() -> None:
    for text in ("int", "float", "str", "tuple"):
        told = name(cause("closure", "how", part=None, expected_type=text, actual_type=text, use="arithmetic"))
        assert told == ("number" if text in {"int", "float"} else "constant_or_tensor")


@pytest.mark.parametrize("kind", ["python_bool", "module_attr", "attr_changed", "global"])
def test_flag_is_never_to_become_a_tensor_or_a_buffer(kind: str) -> None:
    failure = cause(kind, "self.flag", "True", "False", part=None, expected_type="bool", actual_type="bool")
    assert name(failure) == "bool_expected"
    assert "would break the graph" in advise(failure, facts())


def test_library_remedies_are_named_where_they_are_the_cure() -> None:
    rate = cause("python_float", "self.param_groups[0]['lr']", part=None, expected_type="float", actual_type="float")
    assert name(rate) == "learning_rate"
    scaling = cause("python_float", "self.scaling['d']", part=None, where=Location(file="peft/layer.py", line=1))
    assert name(scaling, library="diffusers") == "lora_scaling"
    assert name(scaling, library="transformers") != "lora_scaling"
    assert name(replace(scaling, where=LINE), library="diffusers") != "lora_scaling"
    assert name(cause("module_type", "self.attn.processor", "A", "B", part="module")) == "attention_processor"
    assert name(cause("type", "self.attn.norm", "A", "B", part=None)) == "type"


def test_shared_code_is_told_where_several_classes_run_it() -> None:
    failure = cause("module_type", "fn", "ReLU", "GELU", part="module")
    assert "isolate_recompiles=True" in advise(failure, facts(owners=("ReLU", "GELU")))
    assert name(failure, owners=("ReLU",)) == "module_type"
    before = advise(failure, facts(owners=("ReLU", "GELU", "Tanh", "SiLU"), torch=(2, 11)))
    assert before.startswith("ReLU, GELU, Tanh and others run through one function")
    assert "isolate_recompiles" not in before


def test_one_tensor_for_two_arguments_is_cloned_and_no_object_is_shared() -> None:
    assert name(cause("object_id", "x, z", part="aliasing")) == "aliasing"
    assert name(cause("object_id", "processor", part=None)) == "object_id"


# --- breaks and errors ----------------------------------------------------------------------------


def site(kind: str, text: str, reason: str = "", file: str = "model.py") -> GraphBreak:
    return GraphBreak(
        code="model.py:net",
        file=file,
        line=7,
        kind=kind,
        registry_id=None,
        reason=reason,
        events=1,
        skips_frame=False,
        text=text,
    )


@pytest.mark.parametrize(
    ("graph_break", "text"),
    [
        (site("print", "print(x)"), "reorderable_logging_functions.add(print)"),
        (site("print", "print(x.shape)", "Attempted to reorder a debugging function Explanation: x"), "move print"),
        (site("skipped_function", "warnings.warn('x')"), "reorderable_logging_functions.add(warnings.warn)"),
        (site("logging", "log.warning('x')"), "ignore_logger_methods.add(logging.Logger.warning)"),
        (site("item", "n = x.sum().item()"), "capture_scalar_outputs = True"),
        (site("item", "if x.sum().item() > 0:"), "torch.cond"),
        (site("item", "return a if x.item() else b"), "torch.cond"),
        (site("explicit_graph_break", "_dynamo.graph_break()", file="torch/optim/sgd.py"), "torch breaks the graph"),
        (site("explicit_graph_break", "torch._dynamo.graph_break()"), "remove the call"),
        (site("dynamic_shape_op", "expert_hit = m.nonzero()", file="transformers/m.py"), "experts_implementation"),
    ],
)
def test_break_is_told_by_its_kind_and_its_line(graph_break: GraphBreak, text: str) -> None:
    advice = for_break(graph_break, {})
    assert advice is not None
    assert text in advice.text


def test_break_without_a_general_remedy_has_none_and_what_is_set_is_not_advised() -> None:
    assert for_break(site("other", "x.foo()"), {}) is None
    captured = for_break(site("item", "n = x.item()"), {"capture_scalar_outputs": True})
    assert captured is not None
    assert captured.name == "item_branched"


def test_error_has_advice_where_it_is_torchs_to_explain() -> None:
    violated = CompileError(kind="constraint_violation", type="E", message="", source="x.size()[0]", where=LINE)
    advice = for_error(violated)
    assert advice is not None
    assert advice.text.startswith("model.py:12 makes x.size()[0] a constant")
    assert for_error(CompileError(kind="no_fake_kernel", type="E", message="")) is not None
    assert for_error(CompileError(kind="user_exception", type="E", message="")) is None


# --- a whole recording ----------------------------------------------------------------------------


def recording(**more: object) -> Recording:
    failing = cause("size", part="size")
    asked = cause("bound", "image.size()[1]", part="bound", symbols=("image.size()[1]",))
    entries = (EntryMiss(id="1/0", failing=(failing, asked)),)
    resumed = "model.py:torch_dynamo_resume_in_net_at_7"
    return Recording(
        meta=Meta(
            compilescope="0",
            torch="2.13.0+cpu",
            python="3.11",
            platform="L",
            device="cpu",
            config={"specialize_int": True},
        ),
        code_objects=(
            CodeObject(id="model.py:net", qualname="net", file="diffusers/model.py", line=1, owner="A, B"),
            CodeObject(
                id=resumed, qualname="torch_dynamo_resume_in_net_at_7", file="model.py", line=7, resumes="model.py:net"
            ),
        ),
        compilations=tuple(
            Compilation(
                id=f"{number}/1",
                code=code,
                outcome="compiled",
                seconds=0.0,
                dynamic=True,
                backend="inductor",
                recompile=Recompile(entries=entries, closest="1/0", causes=(failing,)),
            )
            for number, code in enumerate(("model.py:net", resumed))
        ),
        **more,
    )


def test_facts_are_those_of_the_compilation_and_its_code() -> None:
    run = recording(graph_breaks=(site("print", "print(x)"),))
    known = facts_of(run, run.compilations[0])
    assert (known.torch, known.dynamic, known.backend, known.inductor) == ((2, 13), True, "inductor", True)
    assert (known.library, known.owners, known.resumes) == ("diffusers", ("A", "B"), None)
    assert known.asked == {"image.size()[1]"}
    assert known.config == {"specialize_int": True}
    assert facts_of(run, run.compilations[1]).resumes == run.graph_breaks[0]
    only = recording(graph_breaks=(replace(run.graph_breaks[0], line=99),))
    assert facts_of(only, only.compilations[1]).resumes == only.graph_breaks[0], "a function's only break is the one"


def test_facts_of_code_that_the_recording_does_not_describe() -> None:
    run = replace(recording(), code_objects=())
    known = facts_of(run, run.compilations[1])
    assert (known.library, known.owners, known.resumes, known.dynamic) == (None, (), None, True)


def test_code_asks_only_what_its_own_entries_failed_for_in_a_saved_recording_too() -> None:
    run = recording()
    mute = replace(run.compilations[0].recompile, entries=())
    asks, other = run.compilations
    silent = (asks, replace(other, recompile=mute), replace(asks, id="0/2", recompile=mute))
    for known in (replace(run, compilations=silent), from_json(to_json(replace(run, compilations=silent)))):
        asked = [facts_of(known, one).asked for one in known.compilations]
        assert asked == [{"image.size()[1]"}, set(), {"image.size()[1]"}]


def test_resume_function_is_spared_by_the_removal_of_its_break() -> None:
    run = advise_recording(recording(graph_breaks=(site("print", "print(x)"),)))
    (told,) = run.compilations[1].recompile.causes
    assert told.advice.startswith("remove the graph break at model.py:7")
    assert "reorderable_logging_functions.add(print)" in told.advice
    on_purpose = advise_recording(recording(graph_breaks=(site("compiler_disable", "disabled(x)"),)))
    (told,) = on_purpose.compilations[1].recompile.causes
    assert "remove the graph break" not in told.advice


def test_advising_twice_changes_nothing() -> None:
    once = advise_recording(recording(graph_breaks=(site("print", "print(x)"), site("other", "x"))))
    assert advise_recording(once) == once
    assert [b.advice is None for b in once.graph_breaks] == [False, True]


def test_no_sentence_names_a_setting_that_torch_has_not() -> None:
    from torch._dynamo import config as dynamo
    from torch.fx.experimental import _config as shapes

    for sentence in SENTENCES.values():
        for word in sentence.replace(",", " ").replace(".add(", " ").replace("=", " ").split():
            if word.startswith("torch._dynamo.config."):
                assert hasattr(dynamo, word.rpartition(".")[2]), word
            elif word.startswith("torch.fx.experimental._config."):
                assert hasattr(shapes, word.rpartition(".")[2]), word


def test_size_of_one_in_a_model_of_a_library_is_padded_and_not_marked() -> None:
    there = Location(file="diffusers/models/normalization.py", line=3, text="x * 2")
    assert name(cause("zero_one", actual="1", where=there)) == "zero_one_of_library"
    assert name(cause("zero_one", actual="1", where=LINE)) == "zero_one"


def test_line_that_a_later_entry_names_is_known_for_the_first_recompile_too() -> None:
    code = CodeObject(id="model.py:f", qualname="f", file="model.py", line=1)

    def compiled(number: int, *failing: Failure) -> Compilation:
        recompile = Recompile(entries=(EntryMiss(id="0/0", failing=failing),), causes=failing) if failing else None
        return Compilation(id=f"0/{number}", code=code.id, outcome="compiled", seconds=0.1, recompile=recompile)

    early, late = cause("size"), cause("size", "image.size()[0]", "6", "8", pinned_by=LINE)
    meta = Meta(compilescope="1", torch="2.13", python="3.11", platform="Linux", device="cpu")
    recording = Recording(
        meta=meta, code_objects=(code,), compilations=(compiled(0), compiled(1, early), compiled(2, late))
    )
    advised = [c.recompile.causes[0].advice for c in advise_recording(recording).recompiles if c.recompile is not None]
    assert all(advice is not None and advice.startswith("model.py:12 fixes this size") for advice in advised)
