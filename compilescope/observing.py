"""``observe``: record and explain what Dynamo does inside a ``with`` block."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from compilescope.analysis import breaks, causes
from compilescope.analysis.advice import advise_recording
from compilescope.analysis.axes import with_axes
from compilescope.storage import encodable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from compilescope.capture.recorder import Recorder
    from compilescope.record import Recording, Scalar, Sweep


class Scope:
    """What :func:`observe` yields: the recording so far, and methods to stamp it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._sweeps: list[Sweep] = []

    @property
    def recording(self) -> Recording:
        """What was recorded so far, explained. May be read inside the block and after it."""
        bare = replace(self._recorder.recording(), sweeps=tuple(self._sweeps))
        return encodable(advise_recording(with_axes(breaks.explain(causes.explain(bare)))))

    @property
    def served(self) -> int | None:
        """How often a compiled graph ran so far; None if runs are not counted."""
        return self._recorder.served()

    def at(self, values: Mapping[str, Scalar]) -> contextlib.AbstractContextManager[None]:
        """Stamp the compilations made inside with a sweep point."""
        return self._recorder.at(values)

    def aside(self) -> contextlib.AbstractContextManager[None]:
        """Keep the calls made inside out of the count of eager calls, for runs that are eager on purpose."""
        return self._recorder.aside()

    def add_sweep(self, sweep: Sweep) -> None:
        """Add a finished sweep to the recording."""
        self._sweeps.append(sweep)

    def reset(self) -> None:
        """Drop all compiled code, as ``torch.compiler.reset`` does; what was recorded stays."""
        import torch  # noqa: PLC0415 (this module is imported by faces that may never need torch)

        torch.compiler.reset()


@contextlib.contextmanager
def observe(targets: Iterable[object] = (), *, count_runs: bool = False) -> Iterator[Scope]:
    """Record every compilation in this process while the block runs.

    Args:
        targets: what should be compiled: functions, methods, classes, module instances, code
            objects, or patterns over qualified names (``"*Block.forward"``).
        count_runs: also count calls of compiled callables and runs of their graphs, which detects calls that ran
            eagerly without Dynamo. Costs some microseconds a call; without it, nothing is added to a call that a cache
            entry serves.

    Yields:
        The scope; its ``recording`` may be read inside the block and after it.

    Raises:
        UnsupportedTorchError: the internals of the installed torch are not known.
        UsageError: a target has no code that can be compiled.

    Blocks may nest, and overlap in several threads; each records the whole process. An exception inside propagates, and
    what was replaced in torch is always restored.
    """
    from compilescope.capture.recorder import Recorder  # noqa: PLC0415 (imports torch)
    from compilescope.capture.targets import select  # noqa: PLC0415 (imports torch)

    if isinstance(targets, str):
        targets = (targets,)
    recorder = Recorder([select(target) for target in targets], count_runs=count_runs)
    with recorder:
        yield Scope(recorder)
