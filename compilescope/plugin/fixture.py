"""The fixture ``compilescope``: the recording of one test, and ``freeze``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from compilescope.errors import UsageError
from compilescope.observing import observe
from compilescope.plugin.isolation import isolated
from compilescope.plugin.rulings import Frozen, Ruling, rule, rule_frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from compilescope.observing import Scope
    from compilescope.plugin.marks import Claim
    from compilescope.record import Recording, Scalar, Target


class Watch:
    """Records one test, starting from an empty cache. A test gets it as the fixture ``compilescope``."""

    def __init__(self, scope: Scope, claims: Sequence[Claim]) -> None:
        self._scope = scope
        self._claims = tuple(claims)
        self._frozen: Frozen | None = None

    @property
    def recording(self) -> Recording:
        """What was recorded since the test began, explained."""
        return self._scope.recording

    def at(self, values: Mapping[str, Scalar]) -> contextlib.AbstractContextManager[None]:
        """Stamp the compilations made inside with the values that the test varies."""
        return self._scope.at(values)

    def freeze(self) -> None:
        """End the warm-up: the test fails if anything is compiled or runs eagerly from here on, or if no graph runs.

        Raises:
            UsageError: it was already called in this test.
        """
        if self._frozen is not None:
            msg = "freeze() was already called in this test; what was compiled since then already counts against it."
            raise UsageError(msg)
        self._frozen = Frozen(self.recording, self._scope.served or 0)

    @contextlib.contextmanager
    def warmup(self) -> Iterator[None]:
        """Run the warm-up in the block, then call :meth:`freeze`."""
        yield
        self.freeze()

    @property
    def claimed(self) -> int:
        """How many marks the test has."""
        return len(self._claims)

    def rulings(self) -> tuple[Ruling, ...]:
        """Check what was recorded so far against every mark of the test, and against ``freeze``."""
        recording = self.recording
        rulings = [rule(recording, claim, targets) for claim, targets in self._shares(recording.targets)]
        if self._frozen is not None:
            rulings.append(rule_frozen(recording, self._frozen, self._scope.served or 0))
        return tuple(rulings)

    def _shares(self, targets: Sequence[Target]) -> Iterator[tuple[Claim, Sequence[Target]]]:
        """Yield each claim with the outcome of its targets; the recorder lists all in the order given."""
        start = 0
        for claim in self._claims:
            end = start + len(claim.targets)
            yield claim, targets[start:end]
            start = end


@contextlib.contextmanager
def watching(claims: Sequence[Claim]) -> Iterator[Watch]:
    """Isolate and record the block.

    Raises:
        UsageError: a target has no code that can be compiled.
        UnsupportedTorchError: the internals of the installed torch are not known.
    """
    targets = [target for claim in claims for target in claim.targets]
    with isolated(), observe(targets, count_runs=True) as scope:
        yield Watch(scope, claims)
