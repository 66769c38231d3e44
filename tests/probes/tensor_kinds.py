"""Probes of the layout and tensor families."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from .probe import probe


def doubled(image: Tensor) -> Tensor:
    return image * 2


@probe("stride", "image.stride()[0]")
def slice_of_a_wider_image(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for image in (torch.ones(4, 6), torch.ones(4, 9)[:, :6]):
        compiled(image.contiguous() if cured else image)


@probe("stride", "image.stride()[0]")
def slice_under_dynamic(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager", dynamic=True)
    for image in (torch.ones(4, 6), torch.ones(4, 9)[:, :6]):
        compiled(image.contiguous() if cured else image)


@probe("stride", "image.stride()")
def transposed(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for image in (torch.ones(4, 6), torch.ones(6, 4).t()):
        compiled(image.contiguous() if cured else image)


@probe("stride", "image.stride()[0]")
def expanded(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for image in (torch.ones(4, 6), torch.ones(1, 6).expand(4, 6)):
        compiled(image.contiguous() if cured else image)


@probe("view_base", "image._base")
def view_then_whole_tensor(*, cured: bool) -> None:
    with torch.inference_mode(cured):
        compiled = torch.compile(doubled, backend="eager", dynamic=True)
        for image in (torch.ones(8, 3)[:4], torch.ones(4, 3)):
            compiled(image)


@probe("view_base", "image._base")
def view_then_whole_tensor_of_another_size(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager", dynamic=True)
    for image in (torch.ones(8, 3)[:4], torch.ones(5, 3)):
        compiled(image.clone() if cured else image)


def early_or_late(image: Tensor) -> Tensor:
    return image.sin() if image.storage_offset() > 9 else image.cos()


@probe("storage_offset", "image.storage_offset()")
def view_that_starts_elsewhere(*, cured: bool) -> None:
    compiled = torch.compile(early_or_late, backend="eager", dynamic=True)
    base = torch.ones(12, 3)
    for image in (base[2:6], base[5:9]):
        compiled(image.clone() if cured else image)


@probe("memory_format", "image")
def channels_last(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for image in (torch.ones(2, 3, 4, 5), torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)):
        compiled(image.to(memory_format=torch.channels_last) if cured else image)


@probe("memory_format", "image")
def contiguous_after_channels_last_under_dynamic(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager", dynamic=True)
    for image in (torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.ones(2, 3, 4, 5)):
        compiled(image.contiguous() if cured else image)


@probe("dtype", "image.dtype")
def half_precision(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for dtype in (torch.float32, torch.bfloat16):
        image = torch.ones(4, dtype=dtype)
        compiled(image.float() if cured else image)


@probe("device", "image.device")
def another_device(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for device in ("cpu", "meta"):
        image = torch.ones(4, device=device)
        compiled(image.to("meta") if cured else image)


@probe("requires_grad", "image.requires_grad")
def leaf_then_constant(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for wanted in (True, False):
        image = torch.ones(4, requires_grad=wanted)
        compiled(image.detach() if cured else image)


@probe("inference_tensor", "image")
def made_under_inference_mode(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    images = []
    for inference in (cured, True):
        with torch.inference_mode(inference):
            images.append(torch.ones(4))
    with torch.no_grad():
        for image in images:
            compiled(image)


@probe("dispatch_keys", "image")
def lazily_conjugated(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    image = torch.ones(4, dtype=torch.complex64)
    compiled(image)
    compiled(image.conj().resolve_conj() if cured else image.conj())


@probe("dispatch_keys", "image")
def lazily_negated(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    spectrum = torch.ones(4, dtype=torch.complex64)
    for image in (spectrum.imag, spectrum.conj().imag):
        compiled(image.resolve_neg().contiguous() if cured else image)


@probe("tensor_type", "image")
def parameter_then_tensor(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for image in (nn.Parameter(torch.ones(4), requires_grad=False), torch.ones(4)):
        compiled(image.data if cured else image)


class Tagged(Tensor):
    pass


@probe("tensor_type", "image")
def subclass_then_tensor(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for image in (torch.ones(4).as_subclass(Tagged), torch.ones(4)):
        compiled(image.as_subclass(Tensor) if cured else image)


class Scaled(Tensor):
    """A tensor that carries its scale beside it, as quantised ones do."""

    inner: Tensor
    scale: int

    @staticmethod
    def __new__(cls: type[Self], inner: Tensor, scale: int) -> Self:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: Tensor, scale: int) -> None:
        self.inner = inner
        self.scale = scale

    def __tensor_flatten__(self) -> tuple[list[str], int]:
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], scale: int, size: Any, stride: Any) -> Scaled:
        return Scaled(inner["inner"], scale)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        unwrapped = [arg.inner if isinstance(arg, Scaled) else arg for arg in args]
        scale = next(arg.scale for arg in args if isinstance(arg, Scaled))
        return Scaled(func(*unwrapped, **(kwargs or {})), scale)


@probe("subclass_metadata", "image")
def another_scale(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for scale in (2, 2 if cured else 3):
        compiled(Scaled(torch.ones(4), scale))


@probe("dim_marking", "image")
def marked_the_second_time(*, cured: bool) -> None:
    compiled = torch.compile(doubled, backend="eager")
    for marked in (cured, True):
        image = torch.ones(4, 3)
        if marked:
            torch._dynamo.mark_dynamic(image, 0)
        compiled(image)
