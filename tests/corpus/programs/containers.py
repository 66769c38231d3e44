"""Lists and dicts as arguments."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..expectation import Cause, expects


class Decoder(nn.Module):
    def forward(self, features: list[Tensor]) -> Tensor:
        latest, *skips = features
        for skip in skips:
            latest = latest - skip
        return latest


@expects(
    compiles={"Decoder.forward": 3},
    recompiles=(Cause(code="Decoder.forward", kind="list_length", source="features", shape_driven=False, count=2),),
)
def number_of_skip_connections_varies() -> None:
    compiled = torch.compile(Decoder(), backend="eager")
    feature = torch.ones(3)
    for count in (3, 2, 5, 2):
        compiled([feature] * count)


def horner(terms: dict[str, Tensor]) -> Tensor | int:
    total: Tensor | int = 0
    for term in terms.values():
        total = total * 3 + term
    return total


@expects(
    compiles={"horner": 2},
    recompiles=(Cause(code="horner", kind="dict_order", source="terms", shape_driven=False),),
)
def same_keys_in_another_order() -> None:
    compiled = torch.compile(horner, backend="eager")
    high, low = torch.ones(4), torch.zeros(4)
    compiled({"high": high, "low": low})
    compiled({"low": low, "high": high})
    compiled({"high": high, "low": low})
