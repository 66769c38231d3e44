"""State of the process around the call: modes, threads, module globals."""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..expectation import Cause, expects, since


def wave(phase: Tensor) -> Tensor:
    return phase.cos().sin()


@expects(
    compiles={"wave": 2},
    recompiles=(
        Cause(
            code="wave", kind="global_state", source="grad_mode", expected="False", actual="True", shape_driven=False
        ),
    ),
)
def gradients_off_then_on() -> None:
    compiled = torch.compile(wave, backend="eager")
    phase = torch.rand(3, 3)
    for recording_gradients in (False, True, False):
        with torch.set_grad_enabled(recording_gradients):
            compiled(phase)


def weigh(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


@expects(
    compiles={"weigh": 2},
    recompiles=(
        Cause(code="weigh", kind="global_state", source="num_threads", expected="1", actual="2", shape_driven=False),
    ),
)
def thread_count_changes() -> None:
    compiled = torch.compile(weigh, backend="eager")
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        compiled(torch.ones(4, 2))
    torch.set_num_threads(before)


PRECISION = "fast"
STEP = 0


def refine(latent: Tensor) -> Tensor:
    return latent.exp() if STEP == 0 else latent.log1p()  # here: global


@expects(
    compiles={"refine": 3},
    recompiles=(
        Cause(
            code="refine",
            kind="global",
            source="G['STEP']",
            expected=("0", "2"),
            actual=("2", "5"),
            line="global",
            shape_driven=False,
            count=2,
        ),
    ),
)
def module_global_takes_three_values() -> None:
    global STEP  # noqa: PLW0603 (that is the point)
    compiled = torch.compile(refine, backend="eager")
    for STEP in (0, 2, 0, 2, 5):  # noqa: B007 (read by refine)
        compiled(torch.ones(3))
    STEP = 0


BUILT = 0


@functools.lru_cache
def frequency_table(size: int) -> int:
    global BUILT  # noqa: PLW0603 (that is the point)
    BUILT = BUILT + 1  # here: built
    return size * 2


def add_frequencies(signal: Tensor) -> Tensor:
    return signal + frequency_table(4)


@expects(
    # 2.14 calls the cached function instead of tracing through its cache.
    since(2, 14, compiles={"add_frequencies": 1}, recompiles=()),
    compiles={"add_frequencies": 3},
    recompiles=(
        Cause(
            code="add_frequencies",
            kind="global",
            source="G['BUILT']",
            expected=("0", "1"),
            actual=("1", "2"),
            line="built",
            shape_driven=False,
            count=2,
        ),
    ),
)
def cached_helper_counts_its_calls() -> int:
    global BUILT  # noqa: PLW0603 (each run starts alike)
    BUILT = 0
    frequency_table.cache_clear()
    compiled = torch.compile(add_frequencies, backend="eager")
    for _ in range(3):
        compiled(torch.ones(3))
    return BUILT


class Infrastructure(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN001, ANN204 (torch's protocol)
        return func(*args, **(kwargs or {}))

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True


def inner_product(left: Tensor, right: Tensor) -> Tensor:
    return left @ right


@expects(compiles={"inner_product": 1})
def infrastructure_mode_is_no_reason() -> None:
    compiled = torch.compile(inner_product, backend="eager")
    vector = torch.ones(6)
    for _ in range(3):
        with Infrastructure():
            compiled(vector, vector)
