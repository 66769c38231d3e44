"""The recording itself, as JSON of format 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compilescope.render.words import harmless_json
from compilescope.storage import to_json

if TYPE_CHECKING:
    from compilescope.record import Recording
    from compilescope.render.options import Options


@dataclass(frozen=True, slots=True)
class JsonRenderer:
    """Renders what :func:`compilescope.storage.from_json` reads back."""

    name: str = "json"
    extension: str = ".json"

    def render(self, recording: Recording, options: Options) -> str:  # noqa: ARG002 (JSON has one form)
        """Return the recording as indented JSON."""
        return harmless_json(to_json(recording).decode())
