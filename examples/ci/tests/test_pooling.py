"""What the pooling of text promises. Its one graph break is known: compilescope-baseline.json accepts it."""

import pytest
import torch
from tinydit import pooled


@pytest.mark.max_graph_breaks(0, targets=pooled)
def test_pooling_is_one_graph() -> None:
    mask = torch.tensor([[True, True, False]])
    result = torch.compile(pooled, backend="eager")(torch.ones(1, 3, 4), mask)
    assert torch.equal(result, torch.ones(1, 4))
