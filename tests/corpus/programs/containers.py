"""Lists, sets and dicts as arguments."""

from __future__ import annotations

import enum
import functools
from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..expectation import Cause, Change, expects

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet


class Decoder(nn.Module):
    def forward(self, features: list[Tensor]) -> Tensor:
        latest, *skips = features  # here: unpacked
        for skip in skips:
            latest = latest - skip
        return latest


@expects(
    compiles={"Decoder.forward": 3},
    recompiles=(
        Cause(
            code="Decoder.forward",
            kind="list_length",
            source="features",
            expected=("length 3", "length 2"),
            actual=("length 2", "length 5"),
            line="unpacked",
            shape_driven=False,
            count=2,
        ),
    ),
)
def number_of_skip_connections_varies() -> None:
    compiled = torch.compile(Decoder(), backend="eager")
    feature = torch.ones(3)
    for count in (3, 2, 5, 2):
        compiled([feature] * count)


def horner(terms: dict[str, Tensor]) -> Tensor | int:
    total: Tensor | int = 0
    for term in terms.values():  # here: iterated
        total = total * 3 + term
    return total


@expects(
    compiles={"horner": 2},
    recompiles=(
        Cause(
            code="horner",
            kind="dict_order",
            source="terms",
            names=("'high'", "'low'"),
            line="iterated",
            shape_driven=False,
        ),
    ),
)
def same_keys_in_another_order() -> None:
    compiled = torch.compile(horner, backend="eager")
    high, low = torch.ones(4), torch.zeros(4)
    compiled({"high": high, "low": low})
    compiled({"low": low, "high": high})
    compiled({"high": high, "low": low})


def adapt(hidden: Tensor, adapters: dict[int, str], layer: int) -> Tensor:
    if layer in adapters:  # here: membership
        return hidden * 3
    return hidden / 3


@expects(
    compiles={"adapt": 2},
    recompiles=(
        Cause(
            code="adapt",
            kind="dict_keys",
            source="adapters",
            names=("4",),
            line="membership",
            shape_driven=False,
            beside=(Change(kind="python_int", source="layer", expected="4", actual="7", line="membership"),),
        ),
    ),
)
def key_that_was_asked_for_is_gone() -> None:
    compiled = torch.compile(adapt, backend="eager")
    hidden = torch.ones(3)
    compiled(hidden, {4: "low"}, 4)
    compiled(hidden, {4: "low", 7: "high"}, 4)
    compiled(hidden, {7: "high"}, 7)


def augment(picture: Tensor, wanted: AbstractSet[str]) -> Tensor:
    if "flip" in wanted:  # here: wanted
        picture = picture.flip(0)
    return picture - 2


@expects(
    compiles={"augment": 4},
    recompiles=(
        Cause(code="augment", kind="python_value", source="wanted", names=("'crop'",), shape_driven=False),
        Cause(code="augment", kind="python_value", source="wanted", names=("'flip'",), shape_driven=False),
        Cause(code="augment", kind="type", source="wanted", expected="set", actual="frozenset", shape_driven=False),
    ),
)
def set_grows_changes_and_is_frozen() -> None:
    compiled = torch.compile(augment, backend="eager")
    picture = torch.ones(4)
    compiled(picture, {"flip"})
    compiled(picture, {"flip", "crop"})
    compiled(picture, {"crop"})
    compiled(picture, frozenset({"flip"}))


@dataclass
class Features(OrderedDict):  # type: ignore[type-arg]
    last: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None:
                self[one.name] = value


def read_out(features: dict[str, Tensor]) -> Tensor:
    pooled = features["last"] - 3
    if "weights" in features:  # here: weights
        pooled = pooled * features["weights"]
    return pooled


@expects(
    compiles={"read_out": 3},
    recompiles=(
        Cause(code="read_out", kind="dict_keys", source="features", names=("'weights'",), shape_driven=False),
        Cause(code="read_out", kind="type", source="features", names=("Features", "dict"), shape_driven=False),
    ),
)
def output_class_gains_a_field_and_becomes_a_dict() -> None:
    compiled = torch.compile(read_out, backend="eager")
    last = torch.ones(4)
    compiled(Features(last))
    compiled(Features(last, last))
    compiled(Features(last))
    compiled({"last": last})


class Column(enum.Enum):
    PRICE = "price"
    COUNT = "count"


class Tabular(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 3)

    def forward(self, batch: dict[Column, Tensor]) -> Tensor:
        return self.embed(batch[Column.PRICE])  # here: column


@expects(
    compiles={"Tabular.forward": 2},
    recompiles=(
        Cause(
            code="Tabular.forward",
            kind="size",
            source="batch[Column.PRICE].size()[0]",
            expected="4",
            actual="6",
            line="column",
            shape_driven=True,
        ),
    ),
)
def batch_is_keyed_by_an_enum() -> None:
    compiled = torch.compile(Tabular(), backend="eager")
    for rows in (4, 4, 6):
        compiled({Column.PRICE: torch.ones(rows, 3), Column.COUNT: torch.ones(rows, 3)})


class Memory:
    def __init__(self) -> None:
        self.values: list[Tensor] = []
        self.length = 0

    def extend(self, new: Tensor, depth: int) -> Tensor:
        if depth == 0:
            self.length += new.shape[0]  # here: counted
        if len(self.values) <= depth:  # here: filled
            self.values.append(new)
        else:
            self.values[depth] = torch.cat([self.values[depth], new])  # here: appended
        return self.values[depth]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        for depth, layer in enumerate(self.layers):
            tokens = layer(tokens) - memory.extend(tokens, depth).amax(0)
        return tokens * memory.length


@expects(
    compiles={"Recurrent.forward": 3},
    recompiles=(
        Cause(
            code="Recurrent.forward",
            kind="list_length",
            source="memory.values",
            expected="length 0",
            actual="length 2",
            line="filled",
            shape_driven=False,
            beside=(
                Change(kind="attr_changed", source="memory.length", expected="0", actual="6", line="counted"),
                Change(kind="zero_one", source="tokens.size()[0]", expected="6", actual="1"),
            ),
        ),
        Cause(
            code="Recurrent.forward",
            kind="size",
            source="memory.values[0].size()[0]",
            also=("memory.values[1].size()[0]",),
            expected="6",
            actual="7",
            line="appended",
            shape_driven=True,
        ),
    ),
)
def cache_fills_and_grows() -> None:
    compiled = torch.compile(Recurrent(), backend="eager")
    memory = Memory()
    with torch.no_grad():
        compiled(torch.ones(6, 3), memory)
        for _ in range(5):
            compiled(torch.ones(1, 3), memory)


class Photo: ...


class Video: ...


class Sketch: ...


GAINS = {Photo: 1.5, Video: 2.5, Sketch: 3.5}


def amplify(pixels: Tensor, sort: type, centred: bool) -> Tensor:  # noqa: FBT001 (the model's own switch)
    pixels = pixels * GAINS[sort]
    return pixels - 1 if centred else pixels  # here: switch


@expects(
    compiles={"amplify": 3},
    recompiles=(
        Cause(
            code="amplify",
            kind="python_bool",
            source="centred",
            expected="True",
            actual="False",
            line="switch",
            shape_driven=False,
        ),
        Cause(code="amplify", kind="size", source="pixels.size()[0]", expected="4", actual="6", shape_driven=True),
    ),
)
def registry_of_classes_never_changes() -> None:
    compiled = torch.compile(amplify, backend="eager")
    pixels = torch.ones(4)
    compiled(pixels, Photo, centred=True)
    compiled(pixels, Photo, centred=True)
    compiled(pixels, Photo, centred=False)
    compiled(torch.ones(6), Photo, centred=False)


def passes_options_on(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(run)
    def wrapper(self: nn.Module, *args: Tensor, **kwargs: Tensor) -> Tensor:
        return run(self, *args, **kwargs)  # here: options

    return wrapper


class Reader(nn.Module):
    @passes_options_on
    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        return tokens.exp() if padding is None else tokens.exp() * padding


READER = "passes_options_on.<locals>.wrapper"


@expects(
    compiles={READER: 3},
    recompiles=(
        Cause(
            code=READER,
            kind="size",
            source="kwargs['tokens'].size()[1]",
            expected="5",
            actual="8",
            shape_driven=True,
        ),
        Cause(code=READER, kind="dict_keys", source="kwargs", names=("'padding'",), shape_driven=False),
    ),
)
def keyword_is_given_the_third_time() -> None:
    compiled = torch.compile(Reader(), backend="eager")
    with torch.no_grad():
        compiled(tokens=torch.ones(2, 5))
        compiled(tokens=torch.ones(2, 8))
        for batch in (2, 2):
            compiled(tokens=torch.ones(batch, 11), padding=torch.ones(batch, 11))
        compiled(tokens=torch.ones(2, 13))
