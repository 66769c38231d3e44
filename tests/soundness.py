"""What holds of every recording, whatever was run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from compilescope.analysis import breaks, causes
from compilescope.analysis.advice import advise_recording
from compilescope.analysis.kinds import KINDS
from compilescope.storage import from_json, to_json

if TYPE_CHECKING:
    from compilescope.record import Failure, Recording

_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{4,}")
_DIGITS = re.compile(r"(?<![\d.])\d{12,}")
_ADDRESS_SPACE = 2**48


def assert_sound(recording: Recording) -> None:
    """Assert that causes have texts without addresses, and that the recording survives what is done to it."""
    for compilation in recording.recompiles:
        recompile = compilation.recompile
        assert recompile is not None
        assert recompile.causes
        for failure in (*recompile.causes, *(f for entry in recompile.entries for f in entry.failing)):
            _assert_told(failure)
        for cause in recompile.causes:
            assert "'NoneType' object has no attribute" not in msgspec.json.encode(cause).decode()
    bare = msgspec.structs.replace(recording, meta=msgspec.structs.replace(recording.meta, argv=()))
    assert _addresses(to_json(bare).decode()) == []
    assert advise_recording(breaks.explain(causes.explain(recording))) == recording
    assert from_json(to_json(recording)) == recording
    known = {code.id for code in recording.code_objects}
    assert {c.code for c in recording.compilations} <= known
    assert {b.code for b in recording.graph_breaks} <= known
    assert {f.code for f in recording.fallbacks} <= known
    assert {c.resumes for c in recording.code_objects if c.resumes} <= known
    assert len({c.id for c in recording.compilations}) == len(recording.compilations)


def _addresses(text: str) -> list[str]:
    # A seed of nineteen digits is a value, and is to be shown: no address is as large.
    return [*_HEXADECIMAL.findall(text), *(found for found in _DIGITS.findall(text) if int(found) < _ADDRESS_SPACE)]


def _assert_told(failure: Failure) -> None:
    assert failure.source
    assert failure.guard
    assert failure.expected
    assert failure.actual
    assert failure.kind in KINDS
    assert failure.advice
