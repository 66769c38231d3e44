"""Reads the sizes of a call's arguments, if reading them runs none of the user's code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import torch

from compilescope.capture import _torch

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

_DEPTH: Final = 4
_TENSORS: Final = (torch.Tensor, torch.nn.Parameter)
_SIZELESS: Final = (bool, float, str, type(None), torch.dtype, torch.device)


@dataclass(slots=True)
class CallSizes:
    """Whether the calls of one code object's compiled callables had different sizes.

    Attributes:
        seen: what was read of the calls: the sizes of tensors and whole numbers among the arguments. Two are enough.
        unreadable: whether an argument was something else, whose sizes cannot be read.
        repeated: whether one callable was called more than once.
    """

    seen: set[Hashable] = field(default_factory=set)
    unreadable: bool = False
    repeated: bool = False
    _callables: set[int] = field(default_factory=set)

    def note(self, called: object, args: Iterable[object], kwargs: Mapping[str, object]) -> None:
        """Read one call; nothing is kept alive."""
        if self.unreadable or len(self.seen) > 1:
            return
        # If another callable had the same address before, this one looks repeated: then less is reported, not more.
        self.repeated = self.repeated or id(called) in self._callables
        self._callables.add(id(called))
        read = None if _torch.has_function_mode() else _read([*args, kwargs], _DEPTH)
        if read is None:
            self.unreadable = True
        else:
            self.seen.add(read)

    def are_the_same(self, *, dynamic: bool) -> bool:
        """Whether nothing that the calls were given varied in size, nor anything else that a graph may leave free.

        Args:
            dynamic: whether a graph of it was compiled with ``dynamic=True``: then a tensor that the model itself
                holds may have grown between two calls of one callable.
        """
        return not self.unreadable and len(self.seen) == 1 and not (dynamic and self.repeated)


def _read(value: object, depth: int) -> Hashable | None:
    """Return the sizes in ``value``, or None where they cannot be read. Subclasses may run the user's code."""
    kind = type(value)
    if kind in _TENSORS:
        sizes: Any = value.shape  # type: ignore[attr-defined]  # a tensor
        return tuple(sizes) if all(type(size) is int for size in sizes) else None
    if kind in _SIZELESS:
        return ()
    if kind is int:
        return ("int", value)
    if depth == 0 or kind not in (list, tuple, dict):
        return None
    if isinstance(value, dict):
        keys: list[object] = list(value)
        items: list[object] = list(value.values())
    else:
        keys, items = [], list(cast("Sequence[object]", value))
    read = [_read(item, depth - 1) for item in items]
    if any(part is None for part in read) or not all(type(key) is str for key in keys):
        return None
    return (kind.__name__, tuple(cast("list[str]", keys)), tuple(read))
