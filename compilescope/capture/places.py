"""Chooses the line that a finding points at: the user's, with torch's own beside it.

The user's line is the innermost one outside torch and Python's own library: what a diffusers model does is
at diffusers' line, whichever of torch's modules it calls there.
"""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from compilescope.capture import describe
from compilescope.capture._torch_places import TORCH_FOLDER, TRACER_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from traceback import FrameSummary

    from compilescope.capture.resume_lines import ResumeLines
    from compilescope.record import Location

# Nobody wrote the code in these: Python's importer, and the code that torch.fx generates.
_GENERATED: Final = ("<frozen ", "<eval_with_key>")
_PYTHON_FOLDERS: Final = tuple(
    f"{folder}/" for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
)
# If Python is not in a virtual environment, these are inside its own folder.
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


class Place(NamedTuple):
    """A line of the user's, and torch's own if the place is deeper, inside torch."""

    user: Location | None
    torch: Location | None


class Frames(NamedTuple):
    """A place that is not described yet: two frames of a stack."""

    user: FrameSummary | None
    torch: FrameSummary | None

    def corrected(self, lines: ResumeLines | None) -> Frames:
        """Return the same frames with the correct lines of a resume function."""
        if lines is None:
            return self
        return Frames(*(None if frame is None else lines.correct(frame) for frame in self))

    def describe(self) -> Place:
        """Return the lines of the frames."""
        return Place(
            None if self.user is None else describe.location_of(self.user),
            None if self.torch is None else describe.location_of(self.torch),
        )


NOWHERE: Final = Frames(None, None)
KEPT_AS: Final = "_compilescope_places"
"""The attribute of torch's own objects under which the places of guards are kept, so that they live as long."""


def kept(shape_place: object) -> Frames:
    """Return the part of the stack that was kept when a shape guard got its place."""
    found = getattr(shape_place, KEPT_AS, None)
    return found if isinstance(found, Frames) else NOWHERE


@cache
def is_torch(filename: str) -> bool:
    """Whether a file is part of torch, or written by nobody."""
    return filename.startswith((TORCH_FOLDER, *_GENERATED))


@cache
def _is_python(filename: str) -> bool:
    """Whether a file is part of Python's standard library."""
    return filename.startswith(_PYTHON_FOLDERS) and _INSTALLED.isdisjoint(Path(filename).parts)


@cache
def _is_telling(filename: str) -> bool:
    """Whether a line of torch is informative: not if Dynamo replaces a builtin there, or torch.fx generated it."""
    return not filename.startswith((TRACER_FOLDER, *_GENERATED))


def choose(stack: Sequence[FrameSummary], lines: ResumeLines | None = None) -> Frames:
    """Choose from a stack (outermost first) the innermost line written by a user of torch.

    If the whole stack is in torch and Python's library, the place is the innermost line outside torch, and
    if all of it is in torch, the innermost line.

    Args:
        stack: of the code that is traced.
        lines: the correct lines of the resume function that is traced, if Dynamo's are wrong.
    """
    if lines is not None:
        stack = lines.correct_root(stack)
    within_torch = within_python = None
    for frame in reversed(stack):
        name = frame.filename
        if is_torch(name):
            if within_torch is None and _is_telling(name):
                within_torch = frame
        elif _is_python(name):
            within_python = within_python or frame
        else:
            return Frames(frame, within_torch)
    if within_python is not None:
        return Frames(within_python, within_torch)
    return Frames(within_torch or (stack[-1] if stack else None), None)
