"""Calls that may not compile again, and compilations that end in an error."""

from __future__ import annotations

import torch
from torch import Tensor

from ..expectation import Cause, Error, expects


def answer(tokens: Tensor, weight: float) -> Tensor:
    return tokens / weight  # here: answer


DOUBLE = Cause(
    code="answer",
    kind="dtype",
    source="tokens.dtype",
    expected="torch.float32",
    actual="torch.float64",
    line="answer",
    shape_driven=False,
)
LONGER = Cause(
    code="answer",
    kind="size",
    source="tokens.size()[0]",
    expected="3",
    actual="6",
    line="answer",
    shape_driven=True,
)


@expects(compiles={"answer": 2}, recompiles=(LONGER,), refused=(DOUBLE,), raised=1)
def stance_forbids_to_compile_again() -> str | None:
    compiled = torch.compile(answer, backend="eager")
    for length in (3, 6):
        compiled(torch.ones(length, 2), 4.0)
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(8, 2), 4.0)
        try:
            compiled(torch.ones(8, 2, dtype=torch.float64), 4.0)
        except RuntimeError as error:
            return type(error).__name__
    return None


@expects(compiles={"answer": 1}, refused=(LONGER,), raised=1)
def config_forbids_to_compile_again() -> str | None:
    compiled = torch.compile(answer, backend="eager")
    compiled(torch.ones(3, 2), 4.0)
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled(torch.ones(3, 2), 4.0)
        try:
            compiled(torch.ones(6, 2), 4.0)
        except Exception as error:  # noqa: BLE001 (its class is torch's own)
            return type(error).__name__
    return None


@expects(compiles={"answer": 2}, recompiles=(LONGER,), refused=(DOUBLE,), raised=1)
def stance_skips_guards_and_forbids_to_compile_again() -> str | None:
    compiled = torch.compile(answer, backend="eager")
    for length in (3, 6):
        compiled(torch.ones(length, 2), 4.0)
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        compiled(torch.ones(8, 2), 4.0)
        try:
            compiled(torch.ones(8, 2, dtype=torch.float64), 4.0)
        except RuntimeError as error:
            return type(error).__name__
    return None


@torch.library.custom_op("compilescope_corpus::rotate", mutates_args=())
def rotate(signal: Tensor) -> Tensor:
    return signal.roll(2)


def with_rotation(signal: Tensor) -> Tensor:
    signal = signal / 2
    signal = rotate(signal)  # here: operator
    return signal - 1


@expects(
    errors=(
        Error("fake_tensor_error", mark="operator"),
        Error("fake_tensor_error", mark="operator"),
    ),
    raised=2,
)
def operator_has_no_fake_implementation() -> list[str]:
    compiled = torch.compile(with_rotation, backend="eager")
    errors = []
    for length in (4, 6):
        try:
            compiled(torch.ones(length))
        except Exception as error:  # noqa: BLE001 (its class is torch's own; both calls raise)
            errors.append(type(error).__name__)
    return errors
