"""The recorder: listens to the tap, and turns its events into a recording."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from typing import TYPE_CHECKING, Self

import torch
from msgspec.structs import replace

from compilescope._version import __version__
from compilescope.capture import _torch, _torch_config, breaks, describe, fallbacks
from compilescope.capture.eager_calls import RunCounter
from compilescope.capture.evidence import with_uses
from compilescope.capture.tap import Attempt, Tap
from compilescope.capture.targets import Selector, TargetBook
from compilescope.record import CodeObject, Compilation, Meta, Recompile, Recording, Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import CodeType, TracebackType

    from compilescope.capture.stack_slots import Resumption


class _Codes:
    """Names code objects: each body has one id, and no two bodies share an id."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._kept: list[CodeType] = []
        self._taken: set[str] = set()

    def name(self, code: CodeType) -> str:
        """Return the id of a code object, the same each time."""
        known = self._ids.get(id(code))
        if known is not None:
            return known
        plain = f"{describe.path(code.co_filename)}:{code.co_qualname}"
        chosen, number = plain, 1
        while chosen in self._taken:
            # Two bodies with one name in one file differ by line; the same line twice was loaded twice.
            chosen = f"{plain}@{code.co_firstlineno}" + (f"#{number}" if number > 1 else "")
            number += 1
        self._ids[id(code)] = chosen
        self._taken.add(chosen)
        self._kept.append(code)
        return chosen

    def objects(self) -> Iterator[tuple[str, CodeType]]:
        """Yield every named code object with its id, in order of first sight."""
        return ((self._ids[id(code)], code) for code in self._kept)


class Recorder:
    """Records what Dynamo does between :meth:`start` and :meth:`stop`; also a context manager.

    Args:
        selectors: what the user wants to compile.
        count_runs: count calls and graph runs too, at some microseconds a call.
    """

    def __init__(self, selectors: Sequence[Selector] = (), *, count_runs: bool = False) -> None:
        self._selectors = tuple(selectors)
        self._attempts: list[tuple[Attempt, dict[str, Scalar] | None]] = []
        self._declined: dict[tuple[int, str], fallbacks.Declined] = {}
        self._runs = RunCounter(notes_sizes=bool(selectors)) if count_runs else None
        self._config: dict[str, Scalar] | None = None
        self._point: dict[str, Scalar] | None = None
        self._tap: Tap | None = None

    def start(self) -> None:
        """Start listening.

        Raises:
            UnsupportedTorchError: the installed torch is not one whose internals are known.
        """
        _torch.check_version()
        self._tap = Tap.join(self)
        if self._runs is not None:
            self._runs.install()

    def stop(self) -> None:
        """Stop listening and restore what was replaced. Stopping twice does nothing."""
        if self._tap is not None:
            self._tap.leave(self)
            self._tap = None
            if self._runs is not None:
                self._runs.remove()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Stop."""
        self.stop()

    @contextlib.contextmanager
    def at(self, values: Mapping[str, Scalar]) -> Iterator[None]:
        """Stamp the compilations inside, and the calls that run eagerly, with a sweep point."""
        before, self._point = self._point, dict(values)
        try:
            with contextlib.nullcontext() if self._runs is None else self._runs.at(self._point):
                yield
        finally:
            self._point = before

    def served(self) -> int | None:
        """Return how often a compiled graph ran; None if that was not counted."""
        return None if self._runs is None else self._runs.served()

    def aside(self) -> contextlib.AbstractContextManager[None]:
        """Leave the calls made inside out of the counts."""
        return contextlib.nullcontext() if self._runs is None else self._runs.aside()

    # --- hearing ----------------------------------------------------------------------------------

    def on_attempt(self, attempt: Attempt) -> None:
        """Note one call of ``_compile``."""
        if self._config is None:
            self._config = dict(_torch_config.read_config())
        self._attempts.append((attempt, self._point))
        if self._runs is not None:
            self._runs.on_attempt(attempt)

    def on_decline(self, code: CodeType, reason: str) -> None:
        """Note a frame that Dynamo ran eagerly without ``_compile``."""
        key = (id(code), reason)
        known = self._declined.get(key)
        self._declined[key] = fallbacks.Declined(code, reason, 1 if known is None else known.calls + 1)

    # --- telling ----------------------------------------------------------------------------------

    def recording(self) -> Recording:
        """Return what was recorded so far, not yet explained."""
        codes = _Codes()
        attempts = [attempt for attempt, _ in self._attempts]
        owners = _owners(attempts)
        compilations = tuple(self._compilations(codes))
        ids = breaks.registry_ids()
        sites = [breaks.site(event, codes.name(a.code), ids) for a in attempts for event in a.breaks]
        declined = tuple(self._declined.values())
        eager = None if self._runs is None else self._runs.eager()
        fell_back = fallbacks.collect(attempts, declined, eager, codes.name)
        book = TargetBook(
            selectors=self._selectors,
            attempts=attempts,
            declined=[one.code for one in declined],
            called=self._runs.called() if self._runs is not None else (),
            sizes=self._runs.sizes_of_calls() if self._runs is not None else {},
            name=codes.name,
        )
        targets = book.targets()
        resumes = {id(a.code): a.resumes for a in attempts if a.resumes is not None}
        for parent in resumes.values():
            codes.name(parent)
        resumptions = {id(a.code): a.resumption for a in attempts if a.resumption is not None}
        return Recording(
            meta=self._meta(),
            code_objects=tuple(
                _code_object(
                    identity,
                    code,
                    codes.name(resumes[id(code)]) if id(code) in resumes else None,
                    owners.get(id(code)),
                    resumptions.get(id(code)),
                )
                for identity, code in codes.objects()
            ),
            compilations=compilations,
            graph_breaks=breaks.join(sites),
            fallbacks=fell_back,
            targets=targets,
        )

    def _compilations(self, codes: _Codes) -> Iterator[Compilation]:
        seen: dict[str, int] = {}
        current: dict[str, str] = {}
        for attempt, point in self._attempts:
            times = seen[attempt.compile_id] = seen.get(attempt.compile_id, 0) + 1
            # Dynamo restarts its count after a reset; within a recording each id is unique.
            identity = attempt.compile_id if times == 1 else f"{attempt.compile_id}#{times}"
            current[attempt.compile_id] = identity
            yield Compilation(
                id=identity,
                code=codes.name(attempt.code),
                outcome=attempt.outcome,
                seconds=attempt.seconds,
                point=point,
                guards=attempt.guards,
                operators=attempt.operators,
                backend=attempt.backend,
                dynamic=attempt.dynamic,
                owner=attempt.owner,
                limit=attempt.limit,
                error=attempt.error,
                recompile=_recompile(attempt, current),
                raised=attempt.propagates,
            )

    def _meta(self) -> Meta:
        rank = os.environ.get("RANK")
        return Meta(
            compilescope=__version__,
            torch=str(torch.__version__),
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            rank=int(rank) if rank is not None and rank.isdigit() else None,
            argv=tuple(sys.argv),
            config=self._config or {},
            counts_runs=self._runs is not None,
        )


def _code_object(
    identity: str, code: CodeType, resumes: str | None, owner: str | None, resumption: Resumption | None
) -> CodeObject:
    return CodeObject(
        id=identity,
        qualname=code.co_qualname,
        file=describe.path(code.co_filename),
        line=code.co_firstlineno if resumption is None else resumption.after.line,
        resumes=resumes,
        owner=owner,
        resumed_after=None if resumption is None else resumption.after,
        broken_at=None if resumption is None else resumption.broken_at,
    )


def _recompile(attempt: Attempt, current: Mapping[str, str]) -> Recompile | None:
    if not attempt.is_recompile:
        return None
    known = (with_uses(miss) for miss in attempt.misses)
    entries = tuple(replace(miss, id=current.get(miss.id, miss.id)) for miss in known)
    return Recompile(entries=entries)


def _owners(attempts: Sequence[Attempt]) -> dict[int, str]:
    """Return the classes that each shared code object ran for, by its identity."""
    found: dict[int, dict[str, None]] = {}
    for attempt in attempts:
        if attempt.owner is not None:
            found.setdefault(id(attempt.code), {})[attempt.owner] = None
    return {identity: ", ".join(classes) for identity, classes in found.items()}
