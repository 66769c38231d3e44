"""``TENSOR_MATCH`` in parts: one leaf checks class, keys, dtype, grad, rank, every size and every stride."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

import torch

from compilescope.capture import _torch
from compilescope.record import Moved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager


_TEXT: Final = re.compile(
    r"check_tensor\((?P<source>.*), (?P<class>[\w.<>]+), (?P<keys>DispatchKeySet\([^)]*\)), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>None|-?\d+), requires_grad=(?P<grad>True|False), "
    r"size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]\)"
)
# A key that says where a tensor is stored; the others say how it behaves.
_DEVICE_KEYS: Final = re.compile(r"^(?:Autograd)?(CPU|CUDA|Meta|XPU|MPS|HPU|XLA|MTIA|PrivateUse\d)$")
_INFERENCE_KEYS: Final = frozenset({"ADInplaceOrView"})

Dims = tuple[int | None, ...]


class Layout(Protocol):
    """Sizes and strides of a tensor, in elements."""

    @property
    def size(self) -> tuple[int, ...]:
        """Its sizes."""

    @property
    def stride(self) -> tuple[int, ...]:
        """Its strides."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What an entry expects of one tensor. A size or stride of None is not checked."""

    class_name: str
    keys: frozenset[str]
    dtype: str
    device: int | None
    requires_grad: bool
    size: Dims
    stride: Dims


@dataclass(frozen=True, slots=True)
class Difference:
    """One property in which a tensor differs: ``part`` names it, ``suffix`` is appended to the tensor's source."""

    part: str
    suffix: str
    expected: str
    actual: str
    follows: str | None = None
    """Suffix of the difference that this one only follows from."""


@lru_cache(maxsize=8192)
def parse(text: str) -> Expected | None:
    """Read the text of a ``TENSOR_MATCH`` leaf; None if it has another form."""
    found = _TEXT.search(text)
    if found is None:
        return None
    return Expected(
        class_name=found["class"],
        keys=_keys_in(found["keys"]),
        dtype=found["dtype"],
        device=None if found["device"] == "None" else int(found["device"]),
        requires_grad=found["grad"] == "True",
        size=_dims(found["size"]),
        stride=_dims(found["stride"]),
    )


def _keys_in(text: str) -> frozenset[str]:
    """Read ``DispatchKeySet(CPU, AutogradCPU)``, without the keys that are only on one side and mean nothing."""
    names = (part.strip() for part in text.partition("(")[2].rpartition(")")[0].split(","))
    return frozenset(name for name in names if name and name != "BackendSelect" and not name.startswith("Autocast"))


def _dims(text: str) -> Dims:
    return tuple(None if item == "None" else int(item) for item in text.replace(" ", "").split(",") if item)


def differences(expected: Expected, actual: torch.Tensor, was: Layout | None = None) -> list[Difference]:
    """Return every checked property in which ``actual`` differs; empty if none does.

    ``was`` is the layout of the tensor that the entry was compiled for, if known.
    """
    found = [*_class(expected, actual), *_keys(expected, actual), *_flags(expected, actual)]
    if len(expected.size) != actual.dim():
        found.append(Difference("rank", ".dim()", str(len(expected.size)), str(actual.dim())))
        return found
    sizes = [
        Difference("size", f".size()[{index}]", str(want), str(have))
        for index, (want, have) in enumerate(zip(expected.size, actual.shape, strict=True))
        if want is not None and want != have
    ]
    return [*found, *sizes, *_strides(expected, actual, sizes, was)]


def _class(expected: Expected, actual: torch.Tensor) -> Iterator[Difference]:
    # Dynamo writes the qualified name of the class without its module.
    have = type(actual).__qualname__
    if have != expected.class_name:
        yield Difference("class", "", expected.class_name, have)


def _keys(expected: Expected, actual: torch.Tensor) -> Iterator[Difference]:
    have = _keys_in(_torch.dispatch_keys(actual))
    if have == expected.keys:
        return
    lost, gained = expected.keys - have, have - expected.keys
    if _devices(expected.keys) != _devices(have):
        yield Difference("device", ".device", _devices(expected.keys), str(actual.device))
    elif not _is_inference(lost | gained):
        yield Difference("dispatch_keys", "", _list(lost), _list(gained))
    elif _is_mode_alone(lost, gained, actual):
        mode = torch.is_inference_mode_enabled()
        yield Difference("inference_mode", "", str(not mode), str(mode))
    else:
        words = ("an ordinary tensor", "an inference tensor")
        inference = actual.is_inference()
        yield Difference("inference", "", words[not inference], words[inference])


def _devices(keys: frozenset[str]) -> str:
    return ", ".join(sorted({found[1].lower() for key in keys if (found := _DEVICE_KEYS.match(key))}))


def _is_inference(changed: frozenset[str]) -> bool:
    # An inference tensor lacks ADInplaceOrView and its autograd key, and nothing else.
    return all(key in _INFERENCE_KEYS or key.startswith("Autograd") for key in changed)


def _is_mode_alone(lost: frozenset[str], gained: frozenset[str], actual: torch.Tensor) -> bool:
    """Whether the keys would agree if only inference mode were different.

    The mode masks the autograd keys of every tensor, and without it every tensor shows ADInplaceOrView.
    """
    if torch.is_inference_mode_enabled():
        return not actual.is_inference() and not gained and not lost & _INFERENCE_KEYS
    return actual.is_inference() and not lost and gained == _INFERENCE_KEYS


def _list(keys: frozenset[str]) -> str:
    return "{" + ", ".join(sorted(keys)) + "}"


def _flags(expected: Expected, actual: torch.Tensor) -> Iterator[Difference]:
    if str(actual.dtype) != expected.dtype:
        yield Difference("dtype", ".dtype", expected.dtype, str(actual.dtype))
    if expected.device is not None and actual.device.index != expected.device:
        yield Difference("device", ".device", f"index {expected.device}", str(actual.device))
    if actual.requires_grad != expected.requires_grad:
        yield Difference("requires_grad", ".requires_grad", str(expected.requires_grad), str(actual.requires_grad))


def _strides(
    expected: Expected, actual: torch.Tensor, sizes: Sequence[Difference], was: Layout | None
) -> Iterator[Difference]:
    have = actual.stride()
    wrong = [i for i, want in enumerate(expected.stride) if want is not None and want != have[i]]
    if not wrong:
        return
    follows = _follow(expected, actual, wrong, was)
    formats = None if follows else _memory_formats(expected, actual)
    if formats is not None:
        yield Difference("memory_format", "", *formats)
        return
    part, cause = ("stride", None)
    if follows:
        # The sizes themselves may be dynamic here, and the failing guard on them may be another tensor's.
        part, cause = ("stride", sizes[0].suffix) if sizes else ("size_stride", None)
    if len(wrong) == 1:
        index = wrong[0]
        yield Difference(part, f".stride()[{index}]", str(expected.stride[index]), str(have[index]), cause)
        return
    want_text = _dims_text(expected.stride)
    yield Difference(part, ".stride()", want_text, _dims_text(have), cause)


def _dims_text(dims: Sequence[int | None]) -> str:
    return "(" + ", ".join("any" if dim is None else str(dim) for dim in dims) + ")"


def _follow(expected: Expected, actual: torch.Tensor, wrong: Sequence[int], was: Layout | None) -> bool:
    """Whether the strides that differ are those of dense tensors with each side's sizes, in one order of dimensions.

    ``size[1] 1 -> 7, stride[0] 32 -> 224`` is one change. If the old tensor is unknown, its guard shows
    the sizes and strides that it checks.
    """
    if was is not None:
        now = tuple(actual.shape)
        return was.size != now and dense_alike(was.size, was.stride, now, actual.stride())
    order = sorted(range(actual.dim()), key=lambda i: (actual.stride(i), -i))
    want: int | None = 1
    have = 1
    moved = False
    for index in order:
        if index in wrong and (want is None or expected.stride[index] != want or actual.stride(index) != have):
            return False
        size = expected.size[index]
        moved = moved or size != actual.shape[index]
        want = None if want is None or size is None else want * max(size, 1)
        have *= max(actual.shape[index], 1)
    return moved


def dense_strides(size: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense tensor of that size whose dimensions are in memory in that order, outermost first.

    As torch does, a dimension of size 0 counts as one of size 1.
    """
    strides, step = [0] * len(size), 1
    for index in reversed(order):
        strides[index] = step
        step *= max(size[index], 1)
    return tuple(strides)


def is_dense(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the strides are those of a contiguous tensor of that size."""
    return tuple(stride) == dense_strides(size, range(len(size)))


def dense_alike(
    was_size: Sequence[int], was_stride: Sequence[int], now_size: Sequence[int], now_stride: Sequence[int]
) -> bool:
    """Whether both are dense with their dimensions in one order, so that the strides follow from the sizes."""
    if len(was_size) != len(now_size):
        return False
    dims = range(len(now_size))
    orders = (
        tuple(dims),
        (*dims[:1], *dims[2:], *dims[1:2]),
        tuple(sorted(dims, key=lambda i: -now_stride[i])),
        tuple(sorted(dims, key=lambda i: -was_stride[i])),
    )
    return any(
        dense_strides(was_size, order) == tuple(was_stride) and dense_strides(now_size, order) == tuple(now_stride)
        for order in orders
    )


def several_differ(was: Sequence[int], now: Sequence[int]) -> bool:
    """Whether two tuples of strides differ in more than one place."""
    return len(was) == len(now) and sum(old != new for old, new in zip(was, now, strict=True)) > 1


def moved_sizes(name: str, was: Sequence[int], now: Sequence[int]) -> tuple[Moved, ...]:
    """Return the sizes of a tensor that differ."""
    return tuple(
        Moved(source=f"{name}.size()[{index}]", was=old, now=new)
        for index, (old, new) in enumerate(zip(was, now, strict=True))
        if old != new
    )


def quiet() -> AbstractContextManager[object]:
    """Hide reads of a tensor from the user's subclasses and modes."""
    return _torch.no_torch_function()


_FORMATS: Final[Mapping[str, Callable[[int], tuple[int, ...]]]] = {
    "contiguous": lambda dims: tuple(range(dims)),
    "channels_last": lambda dims: (0, *range(2, dims), 1),
}


def _memory_formats(expected: Expected, actual: torch.Tensor) -> tuple[str, str] | None:
    """Return the two sides' memory formats if each has one of its own, or None."""
    if actual.dim() not in (4, 5):
        return None
    shape = tuple(have if want is None else want for want, have in zip(expected.size, actual.shape, strict=True))
    wanted = [
        name for name, order in _FORMATS.items() if _agree(expected.stride, dense_strides(shape, order(len(shape))))
    ]
    found = [
        name for name, order in _FORMATS.items() if actual.stride() == dense_strides(actual.shape, order(actual.dim()))
    ]
    return (wanted[0], found[0]) if len(wanted) == len(found) == 1 and wanted != found else None


def _agree(expected: Dims, strides: Sequence[int]) -> bool:
    return all(want is None or want == have for want, have in zip(expected, strides, strict=True))
