"""The ops as torch sees them: schema, fakes, compile, autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import _config as fx_config
from torch.library import opcheck

import fused_ops.launch
from fused_ops import joint_qkv_norm_rope, qk_norm_rope, reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fused_ops.conftest import Lab

LAYOUTS = ("contiguous", "packed", "heads_first", "dim_first", "stepped", "offset", "shared")
EPS = 1e-6


def _per_stream_arguments(
    lab: Lab, layout: str, dtype: torch.dtype = torch.float32, tokens: int = 3
) -> tuple[Any, ...]:
    return (
        lab.laid_out(layout, (tokens, 3, 8), dtype),
        lab.laid_out(layout, (tokens, 2, 8), dtype, seed=1),
        lab.randn(8, dtype=dtype, seed=2),
        lab.randn(8, dtype=dtype, seed=3),
        lab.table(tokens, 6),
        EPS,
        6,
        True,
        "fast",
    )


def _joint_arguments(
    lab: Lab, layout: str, dtype: torch.dtype = torch.float32, lengths: tuple[int, int] = (2, 3)
) -> tuple[Any, ...]:
    streams = [
        lab.laid_out(layout, (2, tokens, heads, 8), dtype, seed=10 * s + heads)
        for s, tokens in enumerate(lengths)
        for heads in (3, 2, 2)
    ]
    weights = [lab.randn(8, dtype=dtype, seed=s) for s in range(4)]
    return (*streams, *weights, lab.table(2 * sum(lengths), 6), EPS, 6, True, "fast")


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [("contiguous", torch.float32), ("heads_first", torch.bfloat16), ("packed", torch.float16)],
)
def test_opcheck_per_stream(lab: Lab, layout: str, dtype: torch.dtype) -> None:
    opcheck(torch.ops.fused_ops.qk_norm_rope.default, _per_stream_arguments(lab, layout, dtype))


@pytest.mark.parametrize("layout", ["packed", "heads_first"])
def test_opcheck_joint(lab: Lab, layout: str) -> None:
    opcheck(torch.ops.fused_ops.joint_qkv_norm_rope.default, _joint_arguments(lab, layout))


@pytest.mark.parametrize("lengths", [(0, 3), (0, 0)])
def test_opcheck_empty_streams(lab: Lab, lengths: tuple[int, int]) -> None:
    opcheck(torch.ops.fused_ops.joint_qkv_norm_rope.default, _joint_arguments(lab, "contiguous", lengths=lengths))


def test_opcheck_with_gradients(lab: Lab) -> None:
    arguments = [
        a.requires_grad_() if isinstance(a, torch.Tensor) and i != 4 else a
        for i, a in enumerate(_per_stream_arguments(lab, "contiguous"))
    ]
    opcheck(torch.ops.fused_ops.qk_norm_rope.default, tuple(arguments))


def test_opcheck_of_the_eager_path(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_ops.launch, "TRITON_MISSING", "not installed")
    opcheck(torch.ops.fused_ops.qk_norm_rope.default, _per_stream_arguments(lab, "heads_first"))
    opcheck(torch.ops.fused_ops.joint_qkv_norm_rope.default, _joint_arguments(lab, "heads_first"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", [True, False])
def test_fakes_have_the_strides_of_the_real_outputs(
    lab: Lab, layout: str, monkeypatch: pytest.MonkeyPatch, *, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(fused_ops.launch, "TRITON_MISSING", "not installed")
    for op, arguments in (
        (torch.ops.fused_ops.qk_norm_rope, _per_stream_arguments(lab, layout)),
        (torch.ops.fused_ops.joint_qkv_norm_rope, _joint_arguments(lab, layout)),
    ):
        real = op(*arguments)
        with FakeTensorMode() as mode:
            fakes = op(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments))
        for x, fake in zip(real, fakes, strict=True):
            assert x.stride() == fake.stride()
            assert x.is_contiguous()
            assert (x.shape, x.dtype, x.device, x.storage_offset()) == (fake.shape, fake.dtype, fake.device, 0)


def test_outputs_are_neither_views_nor_inputs(lab: Lab) -> None:
    arguments = _joint_arguments(lab, "contiguous", lengths=(3, 0))
    for out, x in zip(torch.ops.fused_ops.joint_qkv_norm_rope(*arguments), arguments, strict=False):
        assert out._base is None
        assert out.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("kernel", [True, False])
def test_no_graph_break_and_no_recompile_over_lengths(
    lab: Lab, fresh_dynamo: None, monkeypatch: pytest.MonkeyPatch, *, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(fused_ops.launch, "TRITON_MISSING", "not installed")

    def step(*arguments: Any) -> tuple[torch.Tensor, ...]:
        q0, k0, v0, q1, k1, v1, *weights, table = arguments
        joint = joint_qkv_norm_rope(q0, k0, v0, q1, k1, v1, *weights, table, EPS, rotary_dim=6)
        rows = table[: q0.shape[0] * q0.shape[1]]
        alone = qk_norm_rope(q0.flatten(0, 1), k0.flatten(0, 1), *weights[:2], rows, EPS, rotary_dim=6)
        return joint[0] + 1, joint[1] + 1, joint[2] + 1, *alone

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(step, backend=counter, fullgraph=True)
    compiled_once = None
    # Duck shaping takes equal numbers for one (a length and a head's size, or the offset of a packed
    # view) and compiles again where they part: a matter of these small sizes, not of the ops.
    with fx_config.patch(use_duck_shape=False):
        for lengths in ((2, 3), (5, 3), (4, 4)):
            arguments = _joint_arguments(lab, "packed", lengths=lengths)[:-4]
            for stream in arguments[:6]:
                torch._dynamo.mark_dynamic(stream, 1)  # an error if a length were specialised
            torch._dynamo.mark_dynamic(arguments[-1], 0)
            for got, want in zip(compiled(*arguments), step(*arguments), strict=True):
                torch.testing.assert_close(got, want)
            # The backend may see the first graph twice: once with eps as an input, then as a constant.
            compiled_once = compiled_once or counter.frame_count
            assert 1 <= compiled_once == counter.frame_count


def test_a_graph_holds_one_node_for_the_op(lab: Lab, fresh_dynamo: None) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    q, k, q_weight, k_weight, table, *_ = _per_stream_arguments(lab, "packed")
    call = torch.compile(
        lambda: qk_norm_rope(q, k, q_weight, k_weight, table, EPS, rotary_dim=6), backend=keep, fullgraph=True
    )
    call()
    calls = [node.target for graph in graphs for node in graph.graph.nodes if node.op == "call_function"]
    assert str(calls[0]) == "fused_ops.qk_norm_rope"
    assert {getattr(target, "__name__", "") for target in calls[1:]} <= {"getitem"}


def test_refusals_are_refusals_under_compile(lab: Lab, fresh_dynamo: None) -> None:
    q, k, q_weight, k_weight, table, *_ = _per_stream_arguments(lab, "contiguous")
    call = torch.compile(
        lambda: qk_norm_rope(q, k, q_weight, k_weight, table, EPS, rotary_dim=6, numerics="cuda_order"),
        backend="eager",
    )
    with pytest.raises(Exception, match="numerics='cuda_order' is defined for bfloat16 heads of 128"):
        call()


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("layout", ["contiguous", "heads_first", "stepped"])
def test_gradients_are_those_of_the_eager_chain(lab: Lab, layout: str, *, interleaved: bool) -> None:
    arguments = _joint_arguments(lab, layout)
    *tensors, table = arguments[:-4]
    leaves = [x.clone().requires_grad_() for x in tensors]
    out = joint_qkv_norm_rope(*leaves, table, EPS, rotary_dim=6, interleaved=interleaved)
    again = [x.clone().requires_grad_() for x in tensors]
    want = reference.joint_qkv_norm_rope(*again, table, EPS, interleaved=interleaved)
    grads = [lab.randn(*x.shape, seed=90 + i) for i, x in enumerate(out)]
    for got, expected in zip(
        torch.autograd.grad(out, leaves, grads), torch.autograd.grad(want, again, grads), strict=True
    ):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("interleaved", [True, False])
def test_per_stream_gradients_are_those_of_the_eager_chain(lab: Lab, *, interleaved: bool) -> None:
    *tensors, table = _per_stream_arguments(lab, "packed")[:-4]
    leaves = [x.clone().requires_grad_() for x in tensors]
    out = qk_norm_rope(*leaves, table, EPS, rotary_dim=6, interleaved=interleaved)
    again = [x.clone().requires_grad_() for x in tensors]
    want = reference.qk_norm_rope(*again, table, EPS, interleaved=interleaved)
    grads = [lab.randn(*x.shape, seed=90 + i) for i, x in enumerate(out)]
    for got, expected in zip(
        torch.autograd.grad(out, leaves, grads), torch.autograd.grad(want, again, grads), strict=True
    ):
        torch.testing.assert_close(got, expected)


def test_empty_calls_have_gradients(lab: Lab) -> None:
    *tensors, table = _joint_arguments(lab, "contiguous", lengths=(0, 0))[:-4]
    leaves = [x.clone().requires_grad_() for x in tensors]
    sum(x.sum() for x in joint_qkv_norm_rope(*leaves, table, EPS, rotary_dim=6)).backward()
    assert all(x.grad is not None and torch.equal(x.grad, torch.zeros_like(x)) for x in leaves[:4] + leaves[6:])


def test_gradients_keep_the_dtypes_of_their_tensors(lab: Lab) -> None:
    q, k, _, _, table, *_ = _per_stream_arguments(lab, "contiguous", torch.bfloat16)
    leaves = [x.clone().requires_grad_() for x in (q, k)]
    weights = [lab.randn(8, seed=s).requires_grad_() for s in (2, 3)]
    sum(x.float().sum() for x in qk_norm_rope(*leaves, *weights, table, EPS, rotary_dim=6)).backward()
    assert [x.grad.dtype for x in (*leaves, *weights)] == [torch.bfloat16] * 2 + [torch.float32] * 2
