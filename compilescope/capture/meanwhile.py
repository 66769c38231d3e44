"""Which thread compiled what: an entry that appears while a call waits for the compile lock fails no guard."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from compilescope.capture import _torch
from compilescope.record import EntryMiss, Failure

if TYPE_CHECKING:
    from compilescope.capture.call import CompileCall, Entry


class Meanwhile:
    """Remembers the thread that each entry was compiled in, as long as the entry lives."""

    def __init__(self) -> None:
        self._threads: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def note(self, manager: object) -> None:
        """Note that the calling thread compiled an entry."""
        self._threads[manager] = threading.get_ident()

    def judge(self, miss: EntryMiss, entry: Entry, call: CompileCall) -> EntryMiss:
        """Say that no guard of an entry fails, where torch accepts the frame now and another thread compiled it."""
        if any(failure.guard_type != "UNKNOWN" for failure in miss.failing):
            return miss
        if self._threads.get(entry.manager, threading.get_ident()) == threading.get_ident():
            return miss
        if not _torch.would_serve(entry.manager, call.locals):
            return miss
        return replace(miss, failing=(_concurrent(),), confirmed=True, unconfirmed=None)


def _concurrent() -> Failure:
    return Failure(
        source="cache entry",
        guard="the entry stands when the frame is looked up",
        expected="compiled before the call",
        actual="compiled by another thread while this call waited",
        guard_type="CONCURRENT",
        holder="ambient",
    )
