"""Each guard of an entry knows the user's line that it comes from, and torch's own, as long as the entry lives."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

import compilescope
from compilescope.capture import _torch, _torch_places, guard_places, guard_tree
from models.diffusers_dits import DITS, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

    from compilescope.capture.guard_places import GuardPlaces
    from compilescope.record import Location

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

# These guard the state of the process: nobody's line asks for them.
AMBIENT = {"GLOBAL_STATE", "DEFAULT_DEVICE", "TORCH_FUNCTION_MODE_STACK", "LAMBDA_GUARD"}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LayerNorm(8)
        self.second = nn.LayerNorm(8)
        self.scale = 3

    def forward(self, image: Tensor) -> Tensor:
        image = self.first(image)  # first
        image = self.second(image) * self.scale  # second
        return image.reshape(-1, 4)  # reshaped


def line_of(marked: str) -> int:
    lines, first = inspect.getsourcelines(Block)
    return first + next(index for index, text in enumerate(lines) if text.rstrip().endswith(f"# {marked}"))


def managers(code: CodeType) -> list[Any]:
    return [entry.manager for entry in _torch.entries_of(code)]


def compiled(function: Callable[..., object], *args: object, dynamic: bool | None = None) -> list[Any]:
    """Compile under observation, and return the guard managers of the entries that came of it."""
    with compilescope.observe():
        torch.compile(function, backend="eager", dynamic=dynamic)(*args)
    code = _torch.target_code(function)
    assert code is not None
    return managers(code)


def leaves(manager: Any) -> Iterator[tuple[str, str, str]]:
    """Yield source, class and text of every leaf guard of an entry."""
    for node in guard_tree.tree(manager).walk():
        for leaf in node.manager.get_leaf_guards():
            yield node.source, type(leaf).__name__, leaf.verbose_code_parts()[0]


def shapes(manager: Any) -> list[str]:
    return [text for leaf in manager.root.get_epilogue_lambda_guards() for text in leaf.verbose_code_parts()]


def shown(where: Location | None) -> tuple[str, int] | None:
    return None if where is None else (where.file.rpartition("/")[2], where.line)


HERE = "test_guard_places.py"


@pytest.mark.parametrize("with_text", [True, False])
def test_two_norms_are_told_apart_by_the_users_lines(with_text: bool) -> None:  # noqa: FBT001 (pytest's)
    (manager,) = compiled(Block(), torch.ones(2, 8))
    places = guard_places.of(manager)
    found = {
        norm: places.guard(source, guard_type, text if with_text else "")
        for source, guard_type, text in leaves(manager)
        for norm in ("first", "second")
        if source == f"L['self']._modules['{norm}'].eps"
    }
    assert {norm: shown(place.user) for norm, place in found.items()} == {
        "first": (HERE, line_of("first")),
        "second": (HERE, line_of("second")),
    }
    assert {place.torch.file for place in found.values() if place.torch} == {"torch/nn/modules/normalization.py"}


def test_a_guard_on_the_users_own_value_has_no_line_of_torch() -> None:
    (manager,) = compiled(Block(), torch.ones(2, 8))
    place = guard_places.of(manager).guard("L['self'].scale", "EQUALS_MATCH")
    assert shown(place.user) == (HERE, line_of("second"))
    assert place.torch is None
    assert place.user is not None
    assert place.user.text == "image = self.second(image) * self.scale  # second"


def test_a_guard_that_nobody_made_has_no_place() -> None:
    (manager,) = compiled(Block(), torch.ones(2, 8))
    assert guard_places.of(manager).guard("L['nothing']", "TYPE_MATCH") == (None, None)
    assert guard_places.of(object()).guard("L['self'].scale", "EQUALS_MATCH") == (None, None)
    assert guard_places.of(object()).shape("2 <= L['x'].size()[0]  # y") == (None, None)


def test_shape_guards_are_at_the_users_lines() -> None:
    (manager,) = compiled(Block(), torch.ones(6, 8), dynamic=True)
    places = guard_places.of(manager)
    found = {text.partition("  # ")[0]: places.shape(text) for text in shapes(manager)}
    assert found
    assert all(place.user is not None and place.user.file.endswith(HERE) for place in found.values())
    bound = next(place for text, place in found.items() if text.startswith("2 <= "))
    assert shown(bound.user) == (HERE, line_of("first"))


def bounded(image: Tensor) -> Tensor:
    image = image + 1  # lower
    if image.shape[0] < 16:  # upper
        return image * 2
    return image


def test_the_two_bounds_of_a_size_have_a_line_each() -> None:
    (manager,) = compiled(bounded, torch.ones(5), dynamic=True)
    (text,) = [text for text in shapes(manager) if "15" in text]
    places = guard_places.of(manager)
    lines, start = inspect.getsourcelines(bounded)
    lower, upper = (start + index for index, line in enumerate(lines) if line.rstrip().endswith(("# lower", "# upper")))
    assert shown(places.shape(text).user) == (HERE, lower)
    assert shown(places.shape(text, upper=True).user) == (HERE, upper)


def equal(image: Tensor, text: Tensor) -> Tensor:
    return image + text


def test_an_equality_met_by_chance_is_at_the_line_of_its_tensor() -> None:
    def apart(image: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        return image + 1, text * 2  # here

    (manager,) = compiled(apart, torch.ones(5), torch.ones(5), dynamic=True)
    (text,) = [text for text in shapes(manager) if "duck sizing" in text]
    user = guard_places.of(manager).shape(text).user
    assert user is not None
    assert user.text == "return image + 1, text * 2  # here"


# --- what is kept, and what it changes ------------------------------------------------------------


def test_a_later_recompile_finds_the_places_of_the_older_entry() -> None:
    block = Block()
    compiled(block, torch.ones(2, 8))
    block.scale = 4
    older, newer = (guard_places.of(manager) for manager in reversed(compiled(block, torch.ones(2, 8))))
    assert older is not newer
    assert shown(older.guard("L['self'].scale", "EQUALS_MATCH").user) == (HERE, line_of("second"))


class Plain(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image + 1


def test_places_live_no_longer_than_their_entry_and_hold_nothing_of_the_users() -> None:
    model = Plain()
    (manager,) = compiled(model, torch.ones(2, 8))
    assert guard_places.of(manager) is not guard_places.of(object())
    entry, alive = weakref.ref(manager), weakref.ref(model)
    del manager, model
    torch.compiler.reset()
    gc.collect()
    assert entry() is None
    assert alive() is None


def reachable(thing: object) -> set[type]:
    seen: dict[int, object] = {}
    pending = [thing]
    while pending:
        one = pending.pop()
        if id(one) not in seen and not isinstance(one, type):
            seen[id(one)] = one
            pending.extend(gc.get_referents(one))
    return {type(one) for one in seen.values()}


def test_places_are_plain_data() -> None:
    (manager,) = compiled(Block(), torch.ones(6, 8), dynamic=True)
    names = {kind.__name__ for kind in reachable(guard_places.of(manager))}
    assert names <= {
        "GuardPlaces",
        "Pin",
        "_Side",
        "Frames",
        "FrameSummary",
        "Location",
        "dict",
        "list",
        "str",
        "int",
        "NoneType",
        "frozenset",
        "tuple",
    }


def test_guards_read_the_same_whether_watched_or_not() -> None:
    def texts() -> list[str]:
        (manager,) = managers(Block.forward.__code__)
        found = [text for _, _, text in leaves(manager) if "___check" not in text]
        torch.compiler.reset()
        return [*found, *shapes(manager)]

    block = Block()
    torch.compile(block, backend="eager", dynamic=True)(torch.ones(6, 8))
    alone = texts()
    compiled(block, torch.ones(6, 8), dynamic=True)
    assert texts() == alone


def test_what_was_patched_is_put_back() -> None:
    def patched() -> tuple[object, ...]:
        return (
            _torch_places.GUARD_BUILDER.__init__,
            getattr(_torch_places.GUARD_WRITER, _torch_places.GUARD_WRITER_NAME),
            _torch_places.SHAPE_PLACE.__init__,
        )

    before = patched()
    with compilescope.observe():
        assert all(now is not then for now, then in zip(patched(), before, strict=True))
    assert patched() == before


# --- models ---------------------------------------------------------------------------------------


def flux() -> Iterator[CodeType]:
    model = DITS["flux"].build(size="tiny", num_layers=1, num_single_layers=1)
    yield from blocks(model, "flux")


def qwen_image() -> Iterator[CodeType]:
    model = DITS["qwen_image"].build(size="tiny", num_layers=1)
    yield from blocks(model, "qwen_image")


def blocks(model: Any, name: str) -> Iterator[CodeType]:
    model.compile_repeated_blocks(backend="eager", dynamic=True)
    DITS[name].call(model, Size(3, 7, 5))
    repeated = set(model._repeated_blocks)
    yield from {type(module).forward.__code__ for module in model.modules() if type(module).__name__ in repeated}


def llama() -> Iterator[CodeType]:
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=99,
    )
    layer = LlamaForCausalLM(config).eval().model  # type: ignore[no-untyped-call]
    layer.compile(backend="eager", dynamic=True)
    with torch.no_grad():
        layer(torch.randint(0, 99, (2, 7)))
    yield type(layer).forward.__code__


@pytest.mark.parametrize(
    ("model", "library"), [(flux, "diffusers"), (qwen_image, "diffusers"), (llama, "transformers")]
)
def test_every_guard_of_a_model_but_the_ambient_ones_is_at_its_librarys_line(
    model: Callable[[], Iterator[CodeType]], library: str
) -> None:
    with compilescope.observe():
        codes = list(model())
    found: Counter[bool] = Counter()
    for manager in [manager for code in codes for manager in managers(code)]:
        places: GuardPlaces = guard_places.of(manager)
        told = [(kind, places.guard(source, kind, text)) for source, kind, text in leaves(manager)]
        told += [("shape", places.shape(text)) for text in shapes(manager)]
        for kind, place in told:
            is_there = place.user is not None and f"{library}/" in place.user.file
            found[is_there] += 1
            # torch 2.11 keeps no stack for the guard that something is the module it was.
            assert is_there or kind in AMBIENT or (kind == "ID_MATCH" and place.user is None), (kind, place)
            assert place.torch is None or place.torch.file.startswith("torch/")
    assert found[True] > 100
    assert found[True] / found.total() > 0.95
