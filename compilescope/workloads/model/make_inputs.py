"""Makes the values that an input specification describes: seeded, the same for the same sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from compilescope.workloads.model.input_spec import Constant, DTypeSpec, Several, Size, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.record import Scalar
    from compilescope.workloads.model.input_spec import Inputs, ValueSpec

_SEED: Final = 0


def make(inputs: Inputs, values: Mapping[str, Scalar], *, device: str | torch.device = "cpu") -> dict[str, object]:
    """Return the arguments of ``forward`` at a point.

    Floating-point tensors are standard normal. Booleans, and integers without a bound, are random; if a row of the last
    dimension has two elements or more, its first is 1 and its last is 0, so that a mask neither hides nor shows a whole
    row. On ``meta`` there are no values.

    Raises:
        UsageError: a size is negative at this point, or an axis has a value that an input does not take.
    """
    generator = torch.Generator().manual_seed(_SEED)
    return {spec.name: _made(spec.chosen(values), values, torch.device(device), generator) for spec in inputs.specs}


def _made(spec: ValueSpec, values: Mapping[str, Scalar], device: torch.device, generator: torch.Generator) -> object:
    match spec:
        case Constant(value):
            return value
        case Size():
            return spec.at(values)
        case DTypeSpec(name):
            return getattr(torch, name)
        case Several(kind, items, keys):
            made = [_made(item, values, device, generator) for item in items]
            return dict(zip(keys, made, strict=True)) if kind == "dict" else made if kind == "list" else tuple(made)
        case TensorSpec():
            return _tensor(spec, [size.at(values) for size in spec.sizes], device, generator)


def _tensor(spec: TensorSpec, sizes: list[int], device: torch.device, generator: torch.Generator) -> torch.Tensor:
    if spec.layout == "transposed":
        return _filled(spec, [*sizes[:-2], sizes[-1], sizes[-2]], device, generator).transpose(-1, -2)
    if spec.layout == "slice":
        return _filled(spec, [*sizes[:-1], sizes[-1] + 1], device, generator)[..., :-1]
    return _filled(spec, sizes, device, generator)


def _filled(spec: TensorSpec, sizes: list[int], device: torch.device, generator: torch.Generator) -> torch.Tensor:
    dtype = getattr(torch, spec.dtype)
    if device.type == "meta":
        return torch.empty(sizes, dtype=dtype, device=device)
    if dtype.is_floating_point or dtype.is_complex:
        kind = torch.float32 if dtype.is_floating_point else dtype
        return torch.randn(sizes, generator=generator, dtype=kind).to(device=device, dtype=dtype)
    made = torch.randint(0, spec.below or 2, sizes, generator=generator)
    if spec.below is None and sizes and sizes[-1] > 1:
        made[..., 0], made[..., -1] = 1, 0
    return made.to(device=device, dtype=dtype)
