"""Parity compares the compiled call with the eager one, and says so where no number can."""

from __future__ import annotations

import collections
import dataclasses
import random
from typing import TYPE_CHECKING, NamedTuple

import pytest
import torch

from compilescope.workloads.parity import EagerComparison, ResultsDifferError

if TYPE_CHECKING:
    from collections.abc import Callable

    from compilescope.record import Parity

    Compare = Callable[[Callable[[], object]], Parity | None]


@pytest.fixture
def compare() -> Compare:
    """Compare a call that knows whether it runs eagerly with itself."""

    def run(call: Callable[[], object]) -> Parity | None:
        return EagerComparison().run(call)()

    return run


@pytest.fixture(autouse=True)
def empty_caches() -> None:
    torch.compiler.reset()


def results(compiled: object, eager: object) -> Callable[[], object]:
    """Return a call that gives ``compiled`` first and ``eager`` when it is run again."""
    given = [compiled, eager]
    return lambda: given.pop(0)


def test_compiled_function_is_compared_with_its_original_code(
    compare: Compare,
) -> None:
    graphs = []

    def backend(graph: Callable[..., object], _: object) -> Callable[..., object]:
        graphs.append(graph)
        return lambda x: (graph(x)[0] + 0.5,)

    compiled = torch.compile(lambda x: x * 2, backend=backend)
    parity = compare(lambda: compiled(torch.ones(4)))
    assert len(graphs) == 1
    assert (parity.max_abs, parity.relative_l2, parity.bitwise) == (0.5, 0.25, False)
    assert parity.psnr == pytest.approx(20 * torch.log10(torch.tensor(4.0)).item())


def test_eager_run_leaves_the_caches_as_they_are(compare: Compare) -> None:
    graphs = []

    def backend(graph: Callable[..., object], _: object) -> Callable[..., object]:
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda x: x * 2, backend=backend, dynamic=True)
    for rows in (3, 5, 3, 7):
        assert compare(lambda rows=rows: compiled(torch.ones(rows, 4))).bitwise
    compiled(torch.ones(9, 4))
    assert len(graphs) == 1


def test_both_runs_draw_the_same_random_numbers(compare: Compare) -> None:
    parity = compare(lambda: (torch.randn(3), random.random()))  # noqa: S311 (what a model might do)
    assert parity.bitwise


def test_random_state_goes_on_as_if_the_eager_run_had_not_been(
    compare: Compare,
) -> None:
    torch.manual_seed(0)
    expected = [torch.randn(2), torch.randn(2)][1]
    torch.manual_seed(0)
    compare(lambda: torch.randn(2))
    assert torch.equal(torch.randn(2), expected)


def test_buffer_that_both_runs_write_into_is_copied(compare: Compare) -> None:
    buffer, values = torch.zeros(2), [1.0, 3.0]
    assert compare(lambda: buffer.fill_(values.pop(0))).max_abs == 2.0


@dataclasses.dataclass
class Output:
    """As models of diffusers return it."""

    sample: torch.Tensor
    rest: object = None


class Pair(NamedTuple):
    """A named tuple with a number in it."""

    a: int
    b: torch.Tensor


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: (x, None),
        lambda x: [{"deep": (x,)}],
        lambda x: Output(x, "text"),
        lambda x: Pair(1, x),
        lambda x: collections.OrderedDict(sample=x),
    ],
)
def test_tensors_are_found_in_nested_results(compare: Compare, wrap: Callable[[torch.Tensor], object]) -> None:
    parity = compare(results(wrap(torch.tensor([1.0, 2.0])), wrap(torch.tensor([1.0, 4.0]))))
    assert parity.max_abs == 2.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_every_dtype_can_be_compared(compare: Compare, dtype: torch.dtype) -> None:
    parity = compare(results(torch.tensor([1, 0]).to(dtype), torch.tensor([1, 1]).to(dtype)))
    assert (parity.max_abs, parity.bitwise) == (1.0, False)
    assert compare(results(torch.ones(2).to(dtype), torch.ones(2).to(dtype))).bitwise


def test_signed_zeros_are_no_difference_but_other_bytes(compare: Compare) -> None:
    parity = compare(results(torch.tensor([0.0]), torch.tensor([-0.0])))
    assert (parity.max_abs, parity.psnr, parity.bitwise) == (0.0, None, False)


def test_layout_is_no_difference(compare: Compare) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert compare(results(x, x.t().contiguous().t())).bitwise


def test_nan_and_infinity_in_the_same_places_are_equal(compare: Compare) -> None:
    x = torch.tensor([float("nan"), float("inf"), 1.0])
    assert compare(results(x, x.clone())).bitwise
    assert compare(results(x, torch.tensor([float("nan"), float("inf"), 2.0]))).max_abs == 1.0


def test_results_without_a_finite_value_prove_nothing(compare: Compare) -> None:
    lost = torch.full((3,), float("nan"))
    with pytest.raises(ResultsDifferError, match="neither the compiled nor the eager result has a finite value"):
        compare(results([lost, lost], [lost.clone(), lost.clone()]))
    assert compare(results([lost, torch.ones(1)], [lost.clone(), torch.ones(1)])).bitwise


@pytest.mark.parametrize(
    ("compiled", "eager", "sentence"),
    [
        (torch.tensor([float("nan")]), torch.tensor([1.0]), "the result is not finite at 1 places"),
        ([torch.tensor([1.0])], [torch.tensor([float("inf")])], r"\[0\] is not finite at 1 places"),
        (torch.ones(2), torch.ones(3), r"the result has shape \(2,\) compiled and \(3,\) eager"),
        ({"x": torch.ones(2)}, {"x": torch.ones(2, dtype=torch.half)}, r"\['x'\] has dtype torch.float32 compiled"),
        ((torch.ones(2),), (torch.ones(2), torch.ones(1)), r"different parts: \[1\]"),
    ],
)
def test_difference_that_no_number_measures_is_an_error(
    compare: Compare, compiled: object, eager: object, sentence: str
) -> None:
    with pytest.raises(ResultsDifferError, match=sentence):
        compare(results(compiled, eager))


def test_results_without_data_are_not_compared(compare: Compare) -> None:
    assert compare(lambda: torch.ones(2, device="meta")) is None
    assert compare(lambda: None) is None


def test_meta_results_of_other_shapes_are_an_error_all_the_same(
    compare: Compare,
) -> None:
    with pytest.raises(ResultsDifferError, match="shape"):
        compare(results(torch.ones(2, device="meta"), torch.ones(3, device="meta")))


def test_eager_result_of_zeros_gives_finite_numbers(compare: Compare) -> None:
    parity = compare(results(torch.ones(2), torch.zeros(2)))
    assert parity.max_abs == 1.0
    assert 1e300 < parity.relative_l2 < float("inf")
    assert float("-inf") < parity.psnr < 0


def test_empty_result_is_equal(compare: Compare) -> None:
    assert compare(results(torch.ones(0, 4), torch.ones(0, 4))).bitwise
