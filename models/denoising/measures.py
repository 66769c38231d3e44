"""How far two tensors are apart. All arithmetic is float64; what is not finite is refused and never a number."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Difference:
    """A candidate beside its reference.

    Attributes:
        psnr: dB over ``peak``; infinite where all values are equal, which JSON writes as null.
        max_abs: largest absolute difference.
        relative_l2: norm of the difference over the norm of the reference.
        bitwise: whether the bytes are equal, signed zeros counted.
        peak: what ``psnr`` relates to.
    """

    psnr: float
    max_abs: float
    relative_l2: float
    bitwise: bool
    peak: float


def compare(candidate: torch.Tensor, reference: torch.Tensor, *, peak: float | None = 1.0) -> Difference:
    """Measure everything.

    Args:
        candidate: any shape and floating dtype.
        reference: of the same shape, on the same device.
        peak: of the signal; None takes the reference's largest magnitude, for what has no range of its own.

    Raises:
        ValueError: shapes differ, there are no values, one of them is not finite, or the peak is not positive.
    """
    if peak is None:
        # An all-zero reference has no magnitude to relate to; any peak serves, as it is written beside.
        peak = _finite(reference, "the reference").abs().max().item() or 1.0
    return Difference(
        psnr=psnr(candidate, reference, peak=peak),
        max_abs=max_abs(candidate, reference),
        relative_l2=relative_l2(candidate, reference),
        bitwise=bitwise(candidate, reference),
        peak=peak,
    )


def psnr(a: torch.Tensor, b: torch.Tensor, *, peak: float = 1.0) -> float:
    """Return the peak signal-to-noise ratio in dB, infinite if all values are equal.

    Raises:
        ValueError: as :func:`compare`.
    """
    if not (math.isfinite(peak) and peak > 0):
        msg = f"a peak is a positive finite number, not {peak}"
        raise ValueError(msg)
    error = _difference(a, b).square().mean().item()
    return math.inf if error == 0 else 20 * math.log10(peak) - 10 * math.log10(error)


def max_abs(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest absolute difference.

    Raises:
        ValueError: as :func:`compare`.
    """
    return _difference(a, b).abs().max().item()


def relative_l2(candidate: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the norm of the difference over the reference's; against zeros it is 0 if equal, else infinite.

    Raises:
        ValueError: as :func:`compare`.
    """
    error: float = _difference(candidate, reference).norm().item()
    size: float = reference.double().norm().item()
    if size == 0:
        return math.inf if error else 0.0
    return error / size


def bitwise(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Say whether dtype, shape and bytes are equal: 0.0 is not -0.0, and a NaN equals the same NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    left, right = (x.contiguous().flatten().view(torch.uint8) for x in (a, b))
    return torch.equal(left, right)


def _difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.shape != b.shape:
        msg = f"tensors of {list(a.shape)} and {list(b.shape)} cannot be compared value by value"
        raise ValueError(msg)
    return _finite(a, "the first tensor") - _finite(b, "the second tensor")


def _finite(x: torch.Tensor, name: str) -> torch.Tensor:
    """Return ``x`` in float64.

    Raises:
        ValueError: it is empty, or not all of it is finite.
    """
    if x.numel() == 0:
        msg = f"{name} has no values to compare"
        raise ValueError(msg)
    wide = x.double()
    bad = x.numel() - int(wide.isfinite().sum().item())
    if bad:
        msg = f"{bad} of {x.numel()} values of {name} are not finite"
        raise ValueError(msg)
    return wide
