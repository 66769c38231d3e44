"""All programs of the corpus."""

from __future__ import annotations

from typing import Final

from .expectation import Program, programs_in
from .programs import (
    ambient,
    attributes,
    breaks,
    callables,
    containers,
    identity,
    not_compiled,
    pinned,
    real,
    refused,
    regions,
    shapes,
    tensors,
    training,
    values,
)

PROGRAMS: Final[list[Program]] = [
    program
    for module in (
        shapes,
        pinned,
        tensors,
        ambient,
        attributes,
        values,
        containers,
        callables,
        identity,
        breaks,
        training,
        not_compiled,
        refused,
        regions,
        real,
    )
    for program in programs_in(module)
]
