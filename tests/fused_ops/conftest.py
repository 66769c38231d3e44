"""Run the kernels everywhere: on CUDA where there is a device, else in Triton's interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import fused_ops.launch

from ..interpreted import interpreted_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CUDA = torch.cuda.is_available()
UNIT_ROUNDOFF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a device where there is none."""
    if CUDA:
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; the interpreter runs the other tests"))


@pytest.fixture(autouse=True)
def kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the kernel run on this machine's tensors, with no gate set from outside."""
    monkeypatch.delenv("FUSED_OPS_MIN_TOKENS", raising=False)
    if not CUDA:
        monkeypatch.setattr(fused_ops.launch, "norm_rope_kernel", interpreted_kernel())
        monkeypatch.setattr(fused_ops.launch, "INTERPRETED", True)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """Neither inherit compiled code from another test nor leave any."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@dataclass(frozen=True)
class Lab:
    """Makes inputs and knows the right answers."""

    device: str

    def randn(self, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
        """Draw normal values, the same on every machine."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=generator).to(dtype).to(self.device)

    def table(
        self,
        rows: int,
        rotary_dim: int,
        dtype: torch.dtype = torch.float32,
        seed: int = 7,
        layout: str = "contiguous",
    ) -> torch.Tensor:
        """Draw a table of cosines and sines of random angles, in memory as ``layout`` says."""
        generator = torch.Generator().manual_seed(seed)
        angles = torch.rand((rows, rotary_dim // 2), generator=generator) * 6.3
        table = torch.cat((angles.cos(), angles.sin()), dim=-1).to(dtype).to(self.device)
        if layout == "padded":
            return torch.cat((table, table, table), dim=-1)[:, rotary_dim : 2 * rotary_dim]
        if layout == "stepped":
            return table.repeat_interleave(3, dim=-1)[:, ::3]
        if layout == "transposed":
            return table.t().contiguous().t()
        assert layout == "contiguous"
        return table

    def laid_out(self, layout: str, shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
        """Draw a tensor of ``[..., tokens, heads, dim]`` in memory as ``layout`` says."""
        *lead, tokens, heads, dim = shape
        if layout == "packed":
            return self.randn(*lead, tokens, 3, heads, dim, dtype=dtype, seed=seed)[..., 1, :, :]
        if layout == "heads_first":
            return self.randn(*lead, heads, tokens, dim, dtype=dtype, seed=seed).transpose(-2, -3)
        if layout == "dim_first":
            return self.randn(*lead, dim, tokens, heads, dtype=dtype, seed=seed).movedim(-3, -1)
        if layout == "stepped":
            return self.randn(*shape, 2, dtype=dtype, seed=seed)[..., 0]
        if layout == "offset":
            flat = self.randn(int(np.prod(shape)) + 1, dtype=dtype, seed=seed)
            return flat[1:].view(shape)
        if layout == "shared":
            return self.randn(*lead, 1, heads, dim, dtype=dtype, seed=seed).expand(shape)
        assert layout == "contiguous"
        return self.randn(*shape, dtype=dtype, seed=seed)

    def exact(
        self, x: torch.Tensor, weight: torch.Tensor, table: torch.Tensor, eps: float, *, interleaved: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the float64 result for ``[tokens, heads, D]``, and the sum of the magnitudes it is made of."""
        values, w, rows = (t.double().cpu().numpy() for t in (x, weight, table))
        normed = values / np.sqrt((values**2).mean(-1, keepdims=True) + eps) * w
        rotary = rows.shape[-1]
        cos, sin = rows[:, None, : rotary // 2], rows[:, None, rotary // 2 :]
        out, size = normed.copy(), np.abs(normed)
        if interleaved:
            one, two = np.s_[..., 0:rotary:2], np.s_[..., 1:rotary:2]
        else:
            one, two = np.s_[..., : rotary // 2], np.s_[..., rotary // 2 : rotary]
        out[one] = normed[one] * cos - normed[two] * sin
        out[two] = normed[two] * cos + normed[one] * sin
        size[one] = np.abs(normed[one] * cos) + np.abs(normed[two] * sin)
        size[two] = np.abs(normed[two] * cos) + np.abs(normed[one] * sin)
        return out, size

    def assert_close(self, got: torch.Tensor, exact: np.ndarray, size: np.ndarray) -> None:
        """Hold a result to its error bound: two roundings to its dtype, and float32 arithmetic."""
        unit = UNIT_ROUNDOFF[got.dtype]
        bound = (2 * unit + unit**2 + 2e-6) * size + 2.0**-24
        error = np.abs(got.double().cpu().numpy() - exact)
        assert np.all(error <= bound), f"largest excess {np.max(error - bound)}"


@pytest.fixture(scope="session")
def lab() -> Lab:
    """Inputs and answers on this machine's device."""
    return Lab("cuda" if CUDA else "cpu")


def _same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and torch.equal(x.view(torch.uint8), y.view(torch.uint8))


@pytest.fixture(scope="session")
def same_bits() -> Callable[[torch.Tensor, torch.Tensor], bool]:
    """Whether two tensors are equal bit for bit, signed zeros included."""
    return _same_bits
