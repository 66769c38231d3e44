"""Finds the lines that pin a size: those that need it as a Python constant, so that no setting makes it dynamic.

A dimension that is dynamic when a frame is compiled is a symbol in torch's shape environment. If the
code needs its value (as a dict key, in a string, in a comparison with a constant), the symbol is replaced
by the number, and the environment keeps the line that needed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compilescope.capture import _torch_shapes, describe
from compilescope.capture.places import kept

if TYPE_CHECKING:
    from compilescope.capture.resume_lines import ResumeLines
    from compilescope.record import Location


@dataclass(frozen=True, slots=True)
class Pin:
    """What pinned a size.

    Attributes:
        where: the line that needed it as a constant.
        shared: the other sources of its symbol; the line may have read one of them: equal sizes begin as one symbol.
    """

    where: Location
    shared: tuple[str, ...] = ()


def size_pins(environment: Any, lines: ResumeLines | None = None) -> dict[str, Pin]:  # noqa: ANN401 (a ShapeEnv)
    """Return what pinned each size or number that began as a symbol, by source.

    Call it after a frame was compiled, with the shape environment of its output graph. The answer is
    plain data, keyed by the source as Dynamo writes it: ``L['x'].size()[0]``.
    """
    found: dict[str, Pin] = {}
    for sources, place in _torch_shapes.specialised(environment):
        if place is None:
            continue
        where, text = kept(place).corrected(lines).describe().user, _torch_shapes.written(place)
        if where is None and text is not None:
            where = describe.location_in(f"# {text}")
        if where is not None:
            found |= {one: Pin(where, tuple(other for other in sources if other != one)) for one in sources}
    return found
