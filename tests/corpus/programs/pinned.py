"""Sizes that stay special however dynamic the graph is: 0 and 1, and those that the code itself pins."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.fx.experimental import _config as shape_config
from torch.nn import functional

from ..expectation import Break, Cause, Change, expects


def feed_forward(tokens: Tensor) -> Tensor:
    return functional.gelu(tokens) / 2  # here: prompt


@expects(
    compiles={"feed_forward": 2},
    recompiles=(
        Cause(
            code="feed_forward",
            kind="zero_one",
            source="tokens.size()[0]",
            expected="7",
            actual="1",
            line="prompt",
            shape_driven=True,
        ),
    ),
)
def prompt_then_one_token_at_a_time() -> None:
    compiled = torch.compile(feed_forward, backend="eager")
    with torch.no_grad():
        for tokens in (7, 1, 1, 1):
            compiled(torch.ones(tokens, 3))


def turn(tokens: Tensor, rotary: Tensor) -> Tensor:
    return tokens - tokens * rotary  # here: rotary


@expects(
    compiles={"turn": 2},
    recompiles=(
        Cause(
            code="turn",
            kind="zero_one",
            source="tokens.size()[1]",
            actual="0",
            line="rotary",
            shape_driven=True,
        ),
    ),
)
def empty_prompt_meets_its_rotary_table() -> None:
    compiled = torch.compile(turn, backend="eager", dynamic=True)
    for tokens in (64, 5, 0):
        compiled(torch.ones(3, tokens, 8), torch.ones(1, tokens, 8))


BUCKETS = {4: 2}


def count_in_bucket(frames: Tensor, counts: Tensor) -> Tensor:
    bucket = BUCKETS.get(frames.shape[-1])  # here: lookup
    if bucket is not None:
        counts[bucket] -= 1
    return counts


@expects(
    compiles={"count_in_bucket": 3},
    recompiles=(
        Cause(
            code="count_in_bucket",
            kind="size",
            source="frames.size()[0]",
            expected=("4", "5"),
            actual=("5", "6"),
            line="lookup",
            shape_driven=True,
            count=2,
        ),
    ),
)
def size_is_looked_up_in_a_dict() -> None:
    compiled = torch.compile(count_in_bucket, backend="eager", dynamic=True)
    counts = torch.zeros(7)
    for frames in (4, 5, 6, 4, 5):
        compiled(torch.ones(frames), counts)


def zero_the_small(values: Tensor) -> Tensor:
    found = (values < 1).nonzero(as_tuple=True)  # here: nonzero
    values[found] = 0.0
    return values + 3


@expects(
    compiles={"zero_the_small": 1, "torch_dynamo_resume_in_zero_the_small_at_{nonzero}": 4},
    recompiles=(
        Cause(
            code="torch_dynamo_resume_in_zero_the_small_at_{nonzero}",
            kind="size",
            source="(the result of `(values < 1).nonzero(as_tuple=True)`)[0].size()[0]",
            expected="4",
            actual="3",
            shape_driven=True,
        ),
        Cause(
            code="torch_dynamo_resume_in_zero_the_small_at_{nonzero}",
            kind="zero_one",
            source="(the result of `(values < 1).nonzero(as_tuple=True)`)[0].size()[0]",
            actual=("1", "0"),
            shape_driven=True,
            count=2,
        ),
    ),
    breaks=(Break("nonzero", "dynamic_shape_op"),),
)
def rest_of_a_frame_depends_on_how_many_were_found() -> None:
    compiled = torch.compile(zero_the_small, backend="eager")
    for small in (4, 3, 1, 0, 3):
        values = torch.full((6,), 2.0)
        values[:small] = 0.5
        compiled(values)


def hand_through(signal: Tensor, extras: Tensor) -> tuple[Tensor, Tensor]:
    untouched = extras
    signal = signal / 2
    torch._dynamo.graph_break()  # here: break
    return signal - 1, untouched


@expects(
    compiles={"hand_through": 3, "torch_dynamo_resume_in_hand_through_at_{break}": 3},
    recompiles=(
        Cause(
            code="hand_through",
            kind="size",
            source="extras.size()[0]",
            expected="5",
            actual="7",
            shape_driven=True,
        ),
        Cause(
            code="torch_dynamo_resume_in_hand_through_at_{break}",
            kind="size",
            source="untouched.size()[0]",
            expected="5",
            actual="7",
            shape_driven=True,
        ),
        Cause(
            code="hand_through",
            kind="size",
            source="extras.size()[0]",
            expected="7",
            actual="9",
            shape_driven=True,
        ),
        Cause(
            code="torch_dynamo_resume_in_hand_through_at_{break}",
            kind="size",
            source="untouched.size()[0]",
            expected="7",
            actual="9",
            shape_driven=True,
        ),
    ),
    breaks=(Break("break", "explicit_graph_break", events=3),),
)
def tensor_is_handed_through_a_break() -> None:
    compiled = torch.compile(hand_through, backend="eager", dynamic=False)
    for extras in (5, 7, 9):
        compiled(torch.ones(2), torch.ones(extras))


class Stem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Conv2d(3, 6, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.filters(pixels)  # here: filters


@expects(
    compiles={"Stem.forward": 3},
    recompiles=(
        Cause(
            code="Stem.forward",
            kind="zero_one",
            source="pixels.size()[0]",
            actual="1",
            line="filters",
            shape_driven=True,
        ),
        Cause(
            code="Stem.forward",
            kind="bound",
            source="pixels.size()[0]",
            names=("15",),
            actual="16",
            line="filters",
            shape_driven=True,
        ),
    ),
)
def convolution_bounds_its_batch() -> None:
    compiled = torch.compile(Stem(), backend="eager", dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 1, 16, 17):
            compiled(torch.ones(batch, 3, 24, 24))


class Patchify(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 5, 8, 8)

    def forward(self, pixels: Tensor) -> Tensor:
        _, _, height, width = pixels.shape
        torch._assert(height % 8 == 0, f"a height of {height} is no multiple of 8")  # here: height
        torch._assert(width % 8 == 0, f"a width of {width} is no multiple of 8")  # here: width
        return self.embed(pixels).flatten(2).mT


@expects(
    compiles={"Patchify.forward": 4},
    recompiles=(
        Cause(
            code="Patchify.forward",
            kind="size",
            source="pixels.size()[2]",
            expected="64",
            actual="96",
            line="height",
            shape_driven=True,
            beside=(Change(kind="size", source="pixels.size()[3]", expected="48", actual="72", line="width"),),
        ),
        Cause(
            code="Patchify.forward",
            kind="size",
            source="pixels.size()[2]",
            expected="96",
            actual="64",
            line="height",
            shape_driven=True,
        ),
        Cause(
            code="Patchify.forward",
            kind="size",
            source="pixels.size()[2]",
            expected="64",
            actual="128",
            line="height",
            shape_driven=True,
        ),
    ),
)
def messages_pin_height_and_width() -> None:
    compiled = torch.compile(Patchify(), backend="eager", dynamic=True)
    with torch.no_grad():
        for height, width in ((64, 48), (96, 72), (64, 72), (128, 72)):
            compiled(torch.ones(2, 3, height, width))


def mask_of(tokens: Tensor) -> Tensor:
    if tokens.shape[0] == 1:  # here: single
        return tokens.new_ones(tokens.shape[1])
    return tokens.new_ones(tokens.shape)


@expects(
    compiles={"mask_of": 2},
    recompiles=(
        Cause(
            code="mask_of",
            kind="size",
            source="tokens.size()[0]",
            expected="1",
            actual="2",
            line="single",
            shape_driven=True,
        ),
    ),
)
def batch_of_one_is_pinned_although_one_is_like_any_size() -> None:
    with shape_config.patch(backed_size_oblivious=True):
        compiled = torch.compile(mask_of, backend="eager", dynamic=True)
        for batch, tokens in ((1, 5), (1, 8), (2, 8), (3, 11)):
            compiled(torch.ones(batch, tokens))


def halve(frames: Tensor) -> Tensor:
    if frames.shape[1] % 2:  # here: odd
        return frames.amax()
    return frames.amin()


@expects(
    compiles={"halve": 3},
    recompiles=(
        Cause(
            code="halve",
            kind="size",
            source="frames.size()[1]",
            expected="16",
            actual="24",
            shape_driven=True,
        ),
        Cause(
            code="halve",
            kind="divisibility",
            source="frames.size()[1]",
            names=("2",),
            actual="17",
            line="odd",
            shape_driven=True,
        ),
    ),
)
def odd_length_after_the_length_is_dynamic() -> None:
    compiled = torch.compile(halve, backend="eager")
    for length in (16, 24, 20, 17):
        compiled(torch.ones(3, length))


class LowRank(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 6)
        self.hold(4)

    def hold(self, rank: int) -> None:
        self.shrink = nn.Parameter(torch.ones(rank, 6), requires_grad=False)
        self.expand = nn.Parameter(torch.ones(6, rank), requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.base(tokens) + tokens @ self.shrink.mT @ self.expand.mT  # here: low rank


@expects(
    compiles={"LowRank.forward": 3},
    recompiles=(
        Cause(
            code="LowRank.forward",
            kind="size",
            source="self.shrink.size()[0]",
            also=("self.expand.size()[1]",),
            expected=("4", "8"),
            actual=("8", "3"),
            line="low rank",
            shape_driven=True,
            count=2,
        ),
    ),
)
def adapter_of_another_rank_is_swapped_in() -> None:
    model = LowRank()
    compiled = torch.compile(model, backend="eager", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for rank in (4, 8, 3):
            model.hold(rank)
            compiled(torch.ones(2, 6))
