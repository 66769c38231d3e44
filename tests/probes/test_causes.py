"""Causes beyond one kind: several at once, the entry that came nearest, and how values reach the compiled code."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from typing import TYPE_CHECKING, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import compilescope

if TYPE_CHECKING:
    from collections.abc import Callable

    from compilescope.record import Recompile

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def recompiles_of(function: Callable[..., object], *calls: tuple[object, ...], **settings: object) -> list[Recompile]:
    """Compile ``function``, call it with each tuple of arguments, and return its recompiles."""
    with compilescope.observe() as scope:
        compiled = torch.compile(function, backend="eager", **settings)
        for arguments in calls:
            compiled(*arguments)
    return [c.recompile for c in scope.recording.recompiles if c.recompile is not None]


def causes(recompile: Recompile) -> list[tuple[str | None, str]]:
    return [(cause.kind, cause.source) for cause in recompile.causes]


# --- several things at once -----------------------------------------------------------------------


def scaled(image: Tensor, factor: int) -> Tensor:
    return image * factor


def test_two_independent_changes_are_both_told_the_decisive_one_first() -> None:
    (recompile,) = recompiles_of(scaled, (torch.ones(4, 3), 2), (torch.ones(6, 3), 5))
    assert causes(recompile) == [("python_int", "factor"), ("size", "image.size()[0]")]
    assert not recompile.shape_driven


def test_entry_that_differs_in_one_thing_is_closest_although_it_is_older() -> None:
    float_ones = functools.partial(torch.ones, dtype=torch.float32)
    recompiles = recompiles_of(
        scaled, (float_ones(4, 3), 2), (torch.ones(6, 3, dtype=torch.float64), 2), (float_ones(7, 3), 2)
    )
    last = recompiles[-1]
    assert [entry.id for entry in last.entries] == ["0/0", "0/1"]
    assert last.closest == "0/0"
    assert causes(last) == [("size", "image.size()[0]")]
    assert last.shape_driven


def test_of_two_entries_as_near_the_one_off_by_shape_is_chosen_and_the_other_is_an_alternative() -> None:
    wide = torch.ones(4, 9)
    recompiles = recompiles_of(scaled, (wide[:, :6], 2), (torch.ones(8, 6), 2), (torch.ones(4, 6), 2), dynamic=False)
    last = recompiles[-1]
    assert last.closest == "0/1"
    assert causes(last) == [("size", "image.size()[0]")]
    assert last.alternatives == ("0/0",)
    assert last.shape_driven


def test_recompile_is_shape_driven_if_any_older_entry_fails_on_shape_alone() -> None:
    recompiles = recompiles_of(
        scaled, (torch.ones(4, 3), 2), (torch.ones(4, 3), 3), (torch.ones(9, 3), 2), dynamic=False
    )
    assert [r.shape_driven for r in recompiles] == [False, True]


def test_every_older_entry_is_listed_oldest_first_with_all_its_failures() -> None:
    recompiles = recompiles_of(scaled, *((torch.ones(n, n), n) for n in (2, 3, 4)), dynamic=False)
    last = recompiles[-1]
    assert [entry.id for entry in last.entries] == ["0/0", "0/1"]
    for entry in last.entries:
        roots = {(f.kind, f.source) for f in entry.failing if f.consequence_of is None}
        assert roots == {
            ("size", "image.size()[0]"),
            ("size", "image.size()[1]"),
            ("python_int", "factor"),
        }


def test_stride_of_a_contiguous_input_follows_from_its_size() -> None:
    (recompile,) = recompiles_of(scaled, (torch.ones(4, 3), 2), (torch.ones(4, 8), 2), dynamic=False)
    assert causes(recompile) == [("size", "image.size()[1]")]
    (entry,) = recompile.entries
    assert [(f.source, f.consequence_of) for f in entry.failing if f.consequence_of] == [
        ("image.stride()[0]", "image.size()[1]")
    ]


def test_lower_rank_is_the_only_cause_although_old_relations_cannot_be_evaluated() -> None:
    (recompile,) = recompiles_of(scaled, (torch.ones(4, 5, 6), 2), (torch.ones(4, 5), 2), dynamic=True)
    assert causes(recompile) == [("rank", "image.dim()")]
    assert recompile.shape_driven


def test_optional_tensor_gone_is_the_only_cause_although_relations_to_its_size_raise() -> None:
    def masked(image: Tensor, mask: Tensor | None) -> Tensor:
        return image * 2 if mask is None else image * mask

    (recompile,) = recompiles_of(masked, (torch.ones(4, 5), torch.ones(4, 5)), (torch.ones(4, 5), None), dynamic=True)
    assert causes(recompile) == [("none_vs_value", "mask")]


def test_module_of_another_class_is_the_only_cause_although_its_parameters_differ_too() -> None:
    (recompile,) = recompiles_of(
        lambda image, norm: norm(image), (torch.ones(2, 4), nn.Linear(4, 4)), (torch.ones(2, 4), nn.LayerNorm(4))
    )
    assert causes(recompile) == [("module_type", "norm")]


def test_new_key_of_an_iterated_dict_is_reported_beside_another_cause() -> None:
    def weighted(image: Tensor, weights: dict[str, float]) -> Tensor:
        for weight in weights.values():
            image = image * weight
        return image

    (recompile,) = recompiles_of(
        weighted, (torch.ones(4), {"text": 2.5}), (torch.ones(6), {"text": 2.5, "mask": 3.5}), dynamic=False
    )
    assert causes(recompile) == [("dict_keys", "weights"), ("size", "image.size()[0]")]


def test_keys_and_values_that_moved_up_follow_from_the_key_that_went() -> None:
    def summed(image: Tensor, table: dict[str, int]) -> Tensor:
        return image * sum(len(key) * value for key, value in table.items())

    (shifted,) = recompiles_of(summed, (torch.ones(4), {"text": 2, "mask": 3}), (torch.ones(4), {"mask": 3}))
    assert causes(shifted) == [("dict_keys", "table")]


# --- how values reach the code --------------------------------------------------------------------


class Mode(enum.Enum):
    FAST = "fast"
    EXACT = "exact"


@dataclasses.dataclass
class Conditioning:
    text: Tensor
    scale: int


class Latents(NamedTuple):
    image: Tensor
    scale: int


class Nested(nn.Module):
    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.ModuleDict({"norm": nn.LayerNorm(3)}), nn.ModuleDict({"norm": last})])

    def forward(self, image: Tensor) -> Tensor:
        for block in self.blocks:
            image = block["norm"](image)
        return image


class Stack(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(3, 3) for _ in range(depth))

    def forward(self, image: Tensor) -> Tensor:
        for block in self.blocks:
            image = block(image)
        return image


class Hidden(nn.Module):
    def __init__(self, last: object) -> None:
        super().__init__()
        self.table = {"steps": [last]}

    def forward(self, image: Tensor) -> Tensor:
        step = self.table["steps"][0]
        return step(image) if isinstance(step, nn.Module) else image * step


IMAGE = torch.ones(4, 3)


def first_star(*images: Tensor) -> Tensor:
    return sum(images[1:], images[0] * 2)


def with_default(image: Tensor, factor: int = 2) -> Tensor:
    return image * factor


REACHED: dict[str, tuple[Callable[..., object], tuple[object, ...], tuple[object, ...], str, str]] = {
    "enum key of a dict": (
        lambda image, table: image * table[Mode.FAST],
        (IMAGE, {Mode.FAST: 2, Mode.EXACT: 3}),
        (IMAGE, {Mode.FAST: 5, Mode.EXACT: 3}),
        "python_int",
        "table[Mode.FAST]",
    ),
    "tuple key of a dict": (
        lambda image, table: image * table[0, 1],
        (IMAGE, {(0, 1): 2}),
        (IMAGE, {(0, 1): 5}),
        "python_int",
        "table[(0, 1)]",
    ),
    "field of a dataclass": (
        lambda conditioning: conditioning.text * conditioning.scale,
        (Conditioning(IMAGE, 2),),
        (Conditioning(IMAGE, 5),),
        "attr_changed",
        "conditioning.scale",
    ),
    "tensor of a dataclass": (
        lambda conditioning: conditioning.text * conditioning.scale,
        (Conditioning(IMAGE, 2),),
        (Conditioning(torch.ones(7, 3), 2),),
        "size",
        "conditioning.text.size()[0]",
    ),
    "field of a named tuple": (
        lambda latents: latents.image * latents.scale,
        (Latents(IMAGE, 2),),
        (Latents(IMAGE, 5),),
        "python_int",
        "latents.scale",
    ),
    "named tuple, then tuple": (
        lambda latents: latents[0] * latents[1],
        (Latents(IMAGE, 2),),
        ((IMAGE, 2),),
        "type",
        "latents",
    ),
    "module in lists and dicts": (
        Nested.forward,
        (Nested(nn.LayerNorm(3)), IMAGE),
        (Nested(nn.Linear(3, 3)), IMAGE),
        "module_type",
        "self.blocks[1].norm",
    ),
    "module in a plain dict": (
        Hidden.forward,
        (Hidden(nn.LayerNorm(3)), IMAGE),
        (Hidden(nn.Linear(3, 3)), IMAGE),
        "module_type",
        "self.table['steps'][0]",
    ),
    "number of submodules": (
        Stack.forward,
        (Stack(2), IMAGE),
        (Stack(3), IMAGE),
        "dict_length",
        "self.blocks",
    ),
    "int in a plain dict": (
        Hidden.forward,
        (Hidden(2), IMAGE),
        (Hidden(5), IMAGE),
        "python_int",
        "self.table['steps'][0]",
    ),
    "number of star arguments": (first_star, (IMAGE,), (IMAGE, torch.zeros(4, 3)), "list_length", "images"),
    "size of a star argument": (
        first_star,
        (IMAGE, torch.zeros(4, 3)),
        (torch.ones(7, 3), torch.zeros(7, 3)),
        "size",
        "images[0].size()[0]",
    ),
    "default argument": (with_default, (IMAGE,), (IMAGE, 5), "python_int", "factor"),
    "keyword of a partial": (
        lambda image, function: function(image),
        (IMAGE, functools.partial(with_default, factor=2)),
        (IMAGE, functools.partial(with_default, factor=5)),
        "python_int",
        "function.keywords['factor']",
    ),
    "gradient of a tensor": (
        lambda weight: weight * 2 if weight.grad is None else weight + weight.grad,
        (torch.ones(3, requires_grad=True),),
        (torch.ones(3, requires_grad=True),),
        "none_vs_value",
        "weight.grad",
    ),
}


@pytest.mark.parametrize("how", REACHED)
def test_value_is_named_as_the_user_would_write_it(how: str) -> None:
    function, first, second, kind, source = REACHED[how]
    if how == "gradient of a tensor":
        second[0].grad = torch.ones(3)
    (recompile,) = recompiles_of(function, first, second)
    assert causes(recompile)[0] == (kind, source)


def test_keyword_only_arguments_are_named() -> None:
    def scaled_by(*, image: Tensor, factor: int) -> Tensor:
        return image * factor

    with compilescope.observe() as scope:
        compiled = torch.compile(scaled_by, backend="eager")
        compiled(image=IMAGE, factor=2)
        compiled(factor=3, image=IMAGE)
    (compilation,) = scope.recording.recompiles
    assert causes(compilation.recompile) == [("python_int", "factor")]


def adder(offset: Tensor) -> Callable[[Tensor], Tensor]:
    def add(image: Tensor) -> Tensor:
        return image + offset

    return add


def test_tensor_in_a_closure_is_told_by_its_variable() -> None:
    with compilescope.observe() as scope:
        for offset in (torch.ones(3), torch.ones(3, dtype=torch.float64)):
            torch.compile(adder(offset), backend="eager")(IMAGE)
    (compilation,) = scope.recording.recompiles
    assert causes(compilation.recompile) == [("dtype", "offset.dtype")]


OFFSET: Tensor | None = None


def add_global(image: Tensor) -> Tensor:
    return image + OFFSET


def test_tensor_in_a_global_is_told_by_its_name_also_when_the_old_one_is_freed() -> None:
    global OFFSET  # noqa: PLW0603 (that is the point)
    with compilescope.observe() as scope:
        compiled = torch.compile(add_global, backend="eager")
        for columns in (3, 1):
            OFFSET = torch.ones(columns)
            compiled(IMAGE)
    OFFSET = None
    (compilation,) = scope.recording.recompiles
    assert causes(compilation.recompile) == [("zero_one", "G['OFFSET'].size()[0]")]


def test_second_optimizer_is_another_object_and_its_learning_rate_is_not_a_cause() -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)

    def step(optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    optimizers = [torch.optim.SGD([weight], lr=rate) for rate in (0.1, 0.2)]
    with compilescope.observe() as scope:
        for optimizer in optimizers:
            torch.compile(step, backend="eager")(optimizer)
    own = [c.recompile for c in scope.recording.recompiles if c.code.endswith("step")]
    assert own
    assert all([kind for kind, _ in causes(recompile)] == ["object_id"] for recompile in own)


# --- regions --------------------------------------------------------------------------------------

_PARAMETERS = inspect.signature(torch.compile).parameters


@pytest.mark.skipif("isolate_recompiles" not in _PARAMETERS, reason="this torch has no regions")
def test_isolated_regions_recompile_each_for_itself() -> None:
    with compilescope.observe() as scope:
        first, second = (
            torch.compile(with_default, backend="eager", isolate_recompiles=True, dynamic=False) for _ in range(2)
        )
        first(torch.ones(3))
        second(torch.ones(4))
        assert not scope.recording.recompiles
        first(torch.ones(5))
    (compilation,) = scope.recording.recompiles
    assert [entry.id for entry in compilation.recompile.entries] == ["0/0"]
    assert compilation.recompile.causes[0].expected == "3"


@pytest.mark.skipif("recompile_limit" not in _PARAMETERS, reason="this torch has no limit of a callable's own")
def test_limit_of_one_callable_is_seen() -> None:
    with compilescope.observe(count_runs=True) as scope:
        compiled = torch.compile(with_default, backend="eager", recompile_limit=2, dynamic=False)
        for size in (3, 4, 5, 6):
            compiled(torch.ones(size))
    recording = scope.recording
    assert [c.outcome for c in recording.compilations] == ["compiled", "compiled", "limit"]
    assert [c.limit for c in recording.compilations] == [2, 2, 2]
    assert [(f.kind, f.calls) for f in recording.fallbacks] == [("recompile_limit", 2)]


def test_limit_is_that_in_force_at_each_compilation() -> None:
    def told(limit: str) -> list[tuple[int | None, str]]:
        torch.compiler.reset()
        compiled = torch.compile(with_default, backend="eager", dynamic=False)
        with compilescope.observe() as scope:
            compiled(torch.ones(3))
            with torch._dynamo.config.patch({limit: 1}):
                compiled(torch.ones(4))
        return [(c.limit, c.outcome) for c in scope.recording.compilations]

    for limit in ("recompile_limit", "accumulated_recompile_limit"):
        assert told(limit) == [(torch._dynamo.config.recompile_limit, "compiled"), (1, "limit")]


class Switch:
    def __init__(self) -> None:
        self.off = False
        self.scale = 2.5


def switched(image: Tensor, switch: Switch) -> Tensor:
    return image * 2 if switch.off else image * switch.scale


def test_switch_that_is_back_where_it_was_is_not_the_cause() -> None:
    switch, image = Switch(), torch.ones(3)
    compiled = torch.compile(switched, backend="eager", dynamic=False)
    with compilescope.observe() as scope:
        compiled(image, switch)
        switch.off = True
        compiled(image, switch)
        switch.off, switch.scale = False, 3.5
        compiled(image, switch)
    told = [[(c.source, c.expected, c.actual) for c in r.recompile.causes] for r in scope.recording.recompiles]
    assert told == [[("switch.off", "False", "True")], [("switch.scale", "2.5", "3.5")]]
    (_, back) = scope.recording.recompiles
    entries = {entry.id: [f.accepted_elsewhere for f in entry.failing] for entry in back.recompile.entries}
    assert entries == {"0/0": [False], "0/1": [True]}


def test_one_fact_against_the_first_entry_is_nearer_than_three_against_the_last() -> None:
    def scaled_by(image: Tensor, scale: float | None, mode: str) -> Tensor:
        out = image * 2 if scale is None else image * scale
        return out.sin() if mode == "a" else out.cos()

    single, double = torch.ones(3), torch.ones(3, dtype=torch.float64)
    first, second = recompiles_of(scaled_by, (single, None, "a"), (double, 0.5, "b"), (single, 2.0, "a"))
    assert len(first.causes) == 3
    assert causes(second) == [("none_vs_value", "scale")]


class Steps:
    def __init__(self) -> None:
        self.step: int | None = None
        self.order = 0


def stepped(image: Tensor, steps: Steps) -> Tensor:
    return image * 2 if steps.step is None else image * (steps.step + steps.order)


def test_value_that_was_none_once_is_compared_with_the_one_after_it() -> None:
    steps, image = Steps(), torch.ones(3)
    compiled = torch.compile(stepped, backend="eager", dynamic=False)
    with compilescope.observe() as scope:
        for steps.step, steps.order in ((None, 0), (1, 1), (2, 2)):
            compiled(image, steps)
    last = scope.recording.recompiles[-1].recompile
    assert {(c.source, c.expected, c.actual) for c in last.causes} == {
        ("steps.step", "1", "2"),
        ("steps.order", "1", "2"),
    }


def test_function_that_has_no_closure_and_no_defaults_any_more_is_one_change() -> None:
    def called(image: Tensor, functions: dict[str, Callable[[Tensor], Tensor]]) -> Tensor:
        return functions["scale"](image)

    def scaler(factor: float) -> Callable[[Tensor], Tensor]:
        return lambda image: image * factor

    def with_defaults(image: Tensor, factor: int = 3, *, shift: int = 2) -> Tensor:
        return image * factor + shift

    def plain(image: Tensor) -> Tensor:
        return image * 2

    image = torch.ones(2)
    for before in (scaler(2.5), with_defaults):
        torch.compiler.reset()
        (recompile,) = recompiles_of(called, (image, {"scale": before}), (image, {"scale": plain}))
        assert causes(recompile) == [("function_id", "functions['scale']")]
        assert all(entry.confirmed for entry in recompile.entries)
