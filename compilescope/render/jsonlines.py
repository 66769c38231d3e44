"""One JSON object per line, each with a ``type``: for jq, log stores and benchmark actions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from compilescope.render.words import harmless_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.record import Recording
    from compilescope.render.options import Options


@dataclass(frozen=True, slots=True)
class JsonLinesRenderer:
    """Renders every record of a recording on its own line, with the fields of JSON format 1."""

    name: str = "json-lines"
    extension: str = ".jsonl"

    def render(self, recording: Recording, options: Options) -> str:  # noqa: ARG002 (JSON has one form)
        """Return the lines: ``meta`` first, then the records in the order of the recording."""
        return harmless_json("".join(line.decode() + "\n" for line in chain.from_iterable(_lines(recording))))


def _lines(recording: Recording) -> Iterator[Iterator[bytes]]:
    parts = (
        ("meta", (recording.meta,)),
        ("code_object", recording.code_objects),
        ("compilation", recording.compilations),
        ("graph_break", recording.graph_breaks),
        ("fallback", recording.fallbacks),
        ("target", recording.targets),
        ("sweep", recording.sweeps),
        ("finding", recording.findings),
        ("judgement", () if recording.judgement is None else (recording.judgement,)),
    )
    for name, records in parts:
        yield (_line(name, record) for record in records)


def _line(name: str, record: msgspec.Struct) -> bytes:
    # "type" comes first, so that a person sees it and grep finds it.
    return msgspec.json.encode({"type": name, **msgspec.structs.asdict(record)})
