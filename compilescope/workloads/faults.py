"""The message for an exception of the user's program."""

from __future__ import annotations

import importlib.util
import re
import traceback
from pathlib import Path

_OWN = str(Path(__file__).resolve().parent.parent)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


def one_line(error: BaseException) -> str:
    """Return the class and the first line of ``error``, without memory addresses.

    For example ``RuntimeError: shape '[0]' is invalid (model.py, line 12)``.
    """
    text = text_of(error).strip()
    first = _ADDRESS.sub("0x...", text.splitlines()[0]) if text else ""
    said = f"{type(error).__name__}: {first}" if first else type(error).__name__
    frames = _shown(traceback.extract_tb(error.__traceback__))
    home = _torch_home()
    own = [frame for frame in frames if home is None or not frame.filename.startswith(home)] or frames
    return f"{said} ({_short(own[-1].filename)}, line {own[-1].lineno})" if own else said


def text_of(value: object) -> str:
    """Return the text of what a program raised or ended with, or say that it has none."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 (it is the user's code that makes the text)
        return f"<{type(value).__name__} whose str() fails>"


def user_traceback(error: BaseException) -> str:
    """Return the traceback of ``error`` and of what caused it, trimmed to the user's frames.

    Frames of compilescope and of Python's import system are left out, and so are those of torch, except the innermost:
    if a compiled call fails, thirty frames of the compiler would hide the line that made the call.
    """
    shown = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = shown
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.stack = traceback.StackSummary.from_list(_shown(link.stack))
        link = link.__cause__ or link.__context__
    return "".join(shown.format()).rstrip("\n")


def _shown(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    torch_home = _torch_home()
    frames = [frame for frame in stack if not _is_machinery(frame.filename)]
    return [
        frame
        for place, frame in enumerate(frames)
        if place == len(frames) - 1 or torch_home is None or not frame.filename.startswith(torch_home)
    ]


def _is_machinery(filename: str) -> bool:
    return filename.startswith((_OWN, "<frozen ")) or filename.endswith("/importlib/__init__.py")


def _torch_home() -> str | None:
    """Return the folder of the installed torch, found without importing it."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):  # ValueError: a stand-in module without a spec
        return None
    places = spec.submodule_search_locations if spec is not None else None
    return places[0] if places else None


def _short(filename: str) -> str:
    path = Path(filename)
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # OSError: the program has deleted its working folder
        return path.name
