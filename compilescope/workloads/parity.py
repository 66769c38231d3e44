"""Compares a compiled call with the same call in eager mode."""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from compilescope.record import Parity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FINITE_MAX = sys.float_info.max
_TINY = sys.float_info.min


class ResultsDifferError(Exception):
    """The compiled and the eager result differ in a way that no distance measures."""


class EagerComparison:
    """Runs a call compiled, then eager from the same random state, and measures the difference.

    The eager run uses ``torch.compiler.set_stance("force_eager")``: compiled callables run their original code and the
    caches do not change. It is a second call of the user's function, so a function that counts its calls sees two. The
    compiled results are copied first, in case both calls return one buffer.
    """

    def run(self, call: Callable[[], object]) -> Callable[[], Parity | None]:
        """Make the compiled call; return what makes the eager one and compares.

        The returned function gives None if there is nothing to compare: no tensor and no number in the result, or only
        tensors without data (``meta``). It raises :class:`ResultsDifferError` if the results differ in structure,
        shape, dtype, or in where they are not finite.
        """
        before = _RandomState()
        compiled = _leaves(call(), copy=True)

        def compare() -> Parity | None:
            after = _RandomState()
            before.restore()
            try:
                with torch.compiler.set_stance("force_eager"):
                    eager = _leaves(call(), copy=False)
            finally:
                after.restore()
            return measure(compiled, eager)

        return compare


class _RandomState:
    """The state of every random generator that a model may use."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if _cuda_in_use() else None
        numpy = sys.modules.get("numpy")  # only if the user's code loaded it
        self._numpy: Any = numpy.random.get_state() if numpy is not None else None

    def restore(self) -> None:
        random.setstate(self._python)
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


def _cuda_in_use() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


Leaves = dict[str, torch.Tensor]


def _leaves(result: object, *, copy: bool) -> Leaves:
    """Return every tensor and number of a nested result by its path, such as ``[0].sample``."""
    found: Leaves = {}
    for place, value in _walk(result, "", set()):
        if isinstance(value, torch.Tensor):
            plain = value.detach()
            plain = plain.to_dense() if plain.layout is not torch.strided else plain
            found[place] = plain.clone() if copy else plain
        else:
            found[place] = torch.tensor(value)
    return found


def _walk(value: object, place: str, above: set[int]) -> Iterator[tuple[str, torch.Tensor | float]]:
    if isinstance(value, torch.Tensor | bool | int | float | complex):
        yield place, value  # type: ignore[misc]  # complex has its own dtype in torch.tensor
        return
    if id(value) in above:
        return
    inside = above | {id(value)}
    parts: list[tuple[str, object]] = []
    if isinstance(value, Mapping):
        parts = [(f"[{key!r}]", part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"[{index}]", part) for index, part in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    for step, part in parts:
        yield from _walk(part, place + step, inside)


def measure(compiled: Leaves, eager: Leaves) -> Parity | None:
    """Return how far two results are from each other, over all their leaves together.

    ``relative_l2`` and ``psnr`` stay finite if the eager result is all zeros: a JSON recording cannot hold infinity, so
    they are capped at the largest float.

    Raises:
        ResultsDifferError: they differ in structure, shape, dtype, or in where they are not finite.
    """
    if compiled.keys() != eager.keys():
        one_sided = sorted(compiled.keys() ^ eager.keys())
        msg = f"the compiled and the eager result have different parts: {one_sided[0] or 'the result itself'}"
        raise ResultsDifferError(msg)
    pairs = [(place, compiled[place], eager[place]) for place in compiled]
    for place, ours, theirs in pairs:
        _check_alike(place or "the result", ours, theirs)
    pairs = [(place, ours, theirs) for place, ours, theirs in pairs if not theirs.is_meta]
    if not pairs:
        return None
    max_abs = squares = reference = peak = 0.0
    elements = 0
    for place, ours, theirs in pairs:
        difference, eager_values = _difference(place or "the result", ours, theirs)
        if difference.numel():
            max_abs = max(max_abs, float(difference.abs().max()))
            peak = max(peak, float(eager_values.abs().max()))
        squares += float(difference.square().sum())
        reference += float(eager_values.square().sum())
        elements += difference.numel()
    if all(theirs.numel() and not bool(_real(theirs).isfinite().any()) for _, _, theirs in pairs):
        msg = "neither the compiled nor the eager result has a finite value, so nothing was compared"
        raise ResultsDifferError(msg)
    return Parity(
        max_abs=min(max_abs, _FINITE_MAX),
        relative_l2=min((squares**0.5) / max(reference**0.5, _TINY), _FINITE_MAX),
        psnr=_psnr(squares, elements, peak),
        bitwise=all(_same_bytes(ours, theirs) for _, ours, theirs in pairs),
    )


def _check_alike(place: str, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    for what, one, other in (
        ("shape", tuple(ours.shape), tuple(theirs.shape)),
        ("dtype", ours.dtype, theirs.dtype),
        ("device", ours.device, theirs.device),
    ):
        if one != other:
            msg = f"{place} has {what} {one} compiled and {other} eager"
            raise ResultsDifferError(msg)


def _difference(place: str, ours: torch.Tensor, theirs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return compiled minus eager, and eager, as real double tensors; places where both agree are 0."""
    one, other = _real(ours), _real(theirs)
    agree = (one == other) | (one.isnan() & other.isnan())
    unlike = ~agree & ~(one.isfinite() & other.isfinite())
    if bool(unlike.any()):
        msg = f"{place} is not finite at {int(unlike.sum())} places where the compiled and the eager result differ"
        raise ResultsDifferError(msg)
    zero = torch.zeros_like(one)
    return torch.where(agree, zero, one - other), torch.where(other.isfinite(), other, zero)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.resolve_conj().resolve_neg()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double()


def _psnr(squares: float, elements: int, peak: float) -> float | None:
    """Return the peak signal-to-noise ratio in dB, None if the results are equal."""
    if squares == 0.0:
        return None
    return float(20 * torch.log10(torch.tensor(max(peak, _TINY) / (squares / elements) ** 0.5, dtype=torch.double)))


def _same_bytes(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Return whether the elements are equal as bytes, so that 0.0 and -0.0 differ and equal NaN agree."""
    one, other = (t.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8) for t in (ours, theirs))
    return torch.equal(one, other)
