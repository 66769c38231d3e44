"""What the workers of pytest-xdist send to the controller, and which of them did not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from compilescope.plugin.judged_tests import Census  # noqa: TC001 (msgspec reads the annotations)
from compilescope.plugin.session_baseline import Found  # noqa: TC001 (as above)
from compilescope.record import Recording  # noqa: TC001 (as above)
from compilescope.storage import encodable

if TYPE_CHECKING:
    import pytest

_OUTPUT = "compilescope"


class Handover(msgspec.Struct, frozen=True):
    """The results of one worker.

    Attributes:
        recording: of all its tests; None if none was recorded.
        found: what to accept, if a baseline is updated.
        met: findings of the tests, if there is a baseline.
        census: of its tests.
    """

    recording: Recording | None
    found: Found
    met: Found
    census: Census


def hand_over(config: pytest.Config, whole: Handover) -> None:
    """Give the controller what this worker has, as JSON."""
    config.workeroutput[_OUTPUT] = msgspec.json.encode(encodable(whole)).decode()  # type: ignore[attr-defined]


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker."""
    return hasattr(config, "workeroutput")


class Workers:
    """Every worker that started, and its results. ``node`` is xdist's, which may not be installed."""

    def __init__(self) -> None:
        self._handed: dict[str, Handover] = {}
        self._missing: dict[str, str] = {}

    def expect(self, node: Any) -> None:  # noqa: ANN401 (see above)
        """Expect the results of a worker that started."""
        self._missing[node.gateway.id] = "ended without handing over what it recorded"

    def take(self, node: Any, error: object | None) -> None:  # noqa: ANN401 (see above)
        """Take the results that a worker sends at its end."""
        name = node.gateway.id
        handed = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if handed is None:
            self._missing[name] = f"crashed ({error})" if error else self._missing.get(name, "did not start")
            return
        try:
            self._handed[name] = msgspec.json.decode(handed, type=Handover)
        except msgspec.DecodeError as broken:
            self._missing[name] = f"handed over an unreadable result ({broken})"
            return
        self._missing.pop(name, None)

    def handed(self) -> list[Handover]:
        """Return the results, in the order of the workers' names."""
        return [handover for _, handover in sorted(self._handed.items())]

    def missing(self) -> list[str]:
        """Return a sentence for each worker that sent nothing."""
        return [f"Worker {name} {why}: what its tests compiled is missing." for name, why in self._missing.items()]
