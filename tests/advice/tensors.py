"""Trials of the sentences about layouts and tensor properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..probes.tensor_kinds import Scaled, Tagged
from .trial import calls, cures, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def doubled(image: Tensor) -> Tensor:
    return image * 2


def run(images: Iterable[Tensor], treated: Callable[[Tensor], Tensor] | None, **settings: object) -> list[Tensor]:
    return calls(doubled, [(image if treated is None else treated(image),) for image in images], **settings)


def growing(treated: Callable[[Tensor], Tensor] | None) -> list[Tensor]:
    """Run something that only a dynamic size helps against, whatever is done to the image."""
    return run((torch.ones(4, 6), torch.ones(8, 6)), treated)


@cures("stride")
def slice_of_a_wider_image(*, followed: bool) -> object:
    return run((torch.ones(4, 6), torch.ones(4, 9)[:, :6]), Tensor.contiguous if followed else None)


@cures("stride")
def transposed_under_dynamic(*, followed: bool) -> object:
    images = (torch.ones(4, 6), torch.ones(6, 4).t())
    return run(images, Tensor.contiguous if followed else None, dynamic=True)


@wrong("stride")
def contiguous_images_grow(*, followed: bool) -> object:
    return growing(Tensor.contiguous if followed else None)


@cures("view_base")
def view_then_whole_tensor_under_inference_mode(*, followed: bool) -> object:
    with torch.inference_mode(followed):
        return run((torch.ones(8, 3)[:4], torch.ones(4, 3)), None, dynamic=True)


@cures("view_base")
def view_then_whole_tensor_cloned(*, followed: bool) -> object:
    return run((torch.ones(8, 3)[:4], torch.ones(5, 3)), Tensor.clone if followed else None, dynamic=True)


@cures("storage_offset")
def view_that_starts_elsewhere(*, followed: bool) -> object:
    def early_or_late(image: Tensor) -> Tensor:
        return image.sin() if image.storage_offset() > 9 else image.cos()

    base = torch.ones(12, 3)
    images = (base[2:6], base[2:6] if followed else base[5:9])
    return calls(early_or_late, [(image,) for image in images], dynamic=True)


@wrong("storage_offset")
def views_that_start_at_one_offset_grow(*, followed: bool) -> object:
    base = torch.ones(12, 3)
    return run((base[2:6], base[2:8] if followed else base[5:11]), None)


@wrong("view_base")
def cloned_images_grow(*, followed: bool) -> object:
    return growing(Tensor.clone if followed else None)


def channels_last(image: Tensor) -> Tensor:
    return image.to(memory_format=torch.channels_last)


@cures("memory_format")
def channels_last_comes_along(*, followed: bool) -> object:
    images = (torch.ones(2, 3, 4, 5), channels_last(torch.ones(2, 3, 4, 5)))
    return run(images, channels_last if followed else None)


@wrong("memory_format")
def channels_last_images_grow(*, followed: bool) -> object:
    images = (torch.ones(2, 3, 4, 5), torch.ones(4, 3, 4, 5))
    return run(images, channels_last if followed else None)


@cures("dtype")
def half_precision(*, followed: bool) -> object:
    images = (torch.ones(4), torch.ones(4, dtype=torch.bfloat16))
    return run(images, Tensor.float if followed else None)


@wrong("dtype")
def float_images_grow(*, followed: bool) -> object:
    return growing(Tensor.float if followed else None)


@cures("device")
def another_device(*, followed: bool) -> object:
    images = (torch.ones(4), torch.ones(4, device="meta"))
    return run(images, Tensor.cpu if followed else None) if not followed else run([torch.ones(4)] * 2, Tensor.cpu)


@wrong("device")
def images_on_one_device_grow(*, followed: bool) -> object:
    return growing(Tensor.cpu if followed else None)


@cures("requires_grad")
def leaf_then_constant(*, followed: bool) -> object:
    images = (torch.ones(4, requires_grad=True), torch.ones(4))
    return run(images, Tensor.detach if followed else None)


@wrong("requires_grad")
def detached_images_grow(*, followed: bool) -> object:
    return growing(Tensor.detach if followed else None)


def stages(*, trained: bool, rows: tuple[int, int]) -> object:
    layer = nn.Linear(3, 3)
    layer.requires_grad_(trained)
    compiled = torch.compile(layer, backend="eager")
    first = compiled(torch.ones(rows[0], 3)).detach()
    layer.requires_grad_(requires_grad=True)
    return first, compiled(torch.ones(rows[1], 3)).detach()


@cures("requires_grad_parameter", since=(2, 13))
def layer_is_unfrozen(*, followed: bool) -> object:
    return stages(trained=followed, rows=(2, 2))


@wrong("requires_grad_parameter")
def layer_is_trained_and_the_batch_grows(*, followed: bool) -> object:
    return stages(trained=followed or True, rows=(2, 4))


@cures("inference_tensor")
def made_under_inference_mode(*, followed: bool) -> object:
    images = []
    for inference in (followed, True):
        with torch.inference_mode(inference):
            images.append(torch.ones(4))
    with torch.no_grad():
        return run(images, None)


@wrong("inference_tensor")
def inference_tensors_grow(*, followed: bool) -> object:
    with torch.inference_mode(followed):
        images = (torch.ones(4), torch.ones(6))
    with torch.no_grad():
        return run(images, None)


@cures("dispatch_keys")
def lazily_conjugated(*, followed: bool) -> object:
    image = torch.ones(4, dtype=torch.complex64)
    return run((image, image.conj()), Tensor.resolve_conj if followed else None)


@wrong("dispatch_keys")
def resolved_images_grow(*, followed: bool) -> object:
    return growing(Tensor.resolve_conj if followed else None)


@cures("tensor_type")
def subclass_then_tensor(*, followed: bool) -> object:
    images = (torch.ones(4).as_subclass(Tagged), torch.ones(4))
    return run(images, (lambda image: image.as_subclass(Tensor)) if followed else None)


@wrong("tensor_type")
def images_of_one_class_grow(*, followed: bool) -> object:
    return growing((lambda image: image.as_subclass(Tensor)) if followed else None)


@cures("subclass_metadata")
def another_scale(*, followed: bool) -> object:
    outputs = run([Scaled(torch.ones(4), scale) for scale in (2, 2 if followed else 3)], None)
    return [output.inner for output in outputs]  # type: ignore[attr-defined]


@wrong("subclass_metadata")
def images_of_one_scale_grow(*, followed: bool) -> object:
    outputs = run([Scaled(torch.ones(size), 2 if followed else 3) for size in (4, 6)], None)
    return [output.inner for output in outputs]  # type: ignore[attr-defined]


@cures("dim_marking")
def marked_the_second_time(*, followed: bool) -> object:
    images = [torch.ones(4, 3), torch.ones(4, 3)]
    for image in images if followed else images[1:]:
        torch._dynamo.mark_dynamic(image, 0)
    return run(images, None)


@wrong("dim_marking")
def marked_alike_and_one(*, followed: bool) -> object:
    images = [torch.ones(4, 3), torch.ones(1, 3)]
    if followed:
        for image in images:
            torch._dynamo.maybe_mark_dynamic(image, 0)
    return run(images, None)
