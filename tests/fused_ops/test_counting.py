"""Launches are counted by op, in the block and nowhere else."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import torch

import fused_ops.launch
from fused_ops import count_launches, joint_qkv_norm_rope, qk_norm_rope

if TYPE_CHECKING:
    from tests.fused_ops.conftest import Lab


def _per_stream(lab: Lab, tokens: int = 2) -> None:
    x, weight = lab.randn(tokens, 1, 4), lab.randn(4)
    qk_norm_rope(x, x, weight, weight, lab.table(tokens, 4), 1e-6)


def _joint(lab: Lab, tokens: int = 1) -> None:
    x, weight = lab.randn(1, tokens, 1, 4), lab.randn(4)
    joint_qkv_norm_rope(*[x] * 6, *[weight] * 4, lab.table(2 * tokens, 4), 1e-6)


def _refused(lab: Lab) -> None:
    """Launch once, then be refused."""
    _per_stream(lab)
    x, weight = lab.randn(2, 1, 4), lab.randn(4)
    qk_norm_rope(x, x, weight, weight, lab.table(3, 4), 1e-6)


def test_launches_are_counted_by_op(lab: Lab) -> None:
    with count_launches() as counts:
        _per_stream(lab)
        _per_stream(lab)
        _joint(lab)
    assert (counts.per_stream, counts.joint, counts.total) == (2, 1, 3)
    assert counts.by_op == {"qk_norm_rope": 2, "joint_qkv_norm_rope": 1}


def test_nothing_counts_before_or_after_the_block(lab: Lab) -> None:
    _joint(lab)
    with count_launches() as counts:
        pass
    _joint(lab)
    assert counts.total == 0


def test_empty_calls_launch_nothing(lab: Lab) -> None:
    with count_launches() as counts:
        _per_stream(lab, tokens=0)
        _joint(lab, tokens=0)
    assert counts.total == 0


def test_blocks_nest(lab: Lab) -> None:
    with count_launches() as outer:
        _per_stream(lab)
        with count_launches() as inner:
            _joint(lab)
        _per_stream(lab)
    assert (outer.per_stream, outer.joint) == (2, 1)
    assert (inner.per_stream, inner.joint) == (0, 1)


def test_a_block_that_raises_stops_counting(lab: Lab) -> None:
    with pytest.raises(ValueError, match="table must have a row"), count_launches() as counts:
        _refused(lab)
    _per_stream(lab)
    assert counts.per_stream == 1


def test_another_thread_is_another_context(lab: Lab) -> None:
    with count_launches() as counts:
        thread = threading.Thread(target=_per_stream, args=(lab,))
        thread.start()
        thread.join()
    assert counts.total == 0


def test_the_eager_chain_is_no_launch(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_ops.launch, "TRITON_MISSING", "not installed")
    with count_launches() as counts:
        _per_stream(lab)
        _joint(lab)
    assert counts.total == 0


def test_launches_are_counted_under_compile(lab: Lab, fresh_dynamo: None) -> None:
    x, weight, table = lab.randn(3, 1, 4), lab.randn(4), lab.table(3, 4)
    compiled = torch.compile(
        lambda: qk_norm_rope(x, x, weight, weight, table, 1e-6), backend="aot_eager", fullgraph=True
    )
    compiled()
    with count_launches() as counts:
        compiled()
    assert counts.per_stream == 1
