"""Torch's own evaluator confirms every explained entry of corpus, probes and models, but for the named exceptions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import pytest

import compilescope
from compilescope.capture import guards

from ..confirmed import CONFIRMED, explained, verdict
from ..probes.test_kinds import PROBES
from .gathered import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.record import Recording

    from ..confirmed import Confirmed
    from ..probes.probe import Probe
    from .expectation import Program

# By program, probe or model: why torch cannot confirm some of its entries, as ``EntryMiss.unconfirmed`` says it.
EXCEPTIONS: Final[Mapping[str, str]] = {
    # torch asks the guards on what surrounds every call first, and nothing after one of them has refused.
    "gradients_off_then_on": guards.AMBIENT,
    "thread_count_changes": guards.AMBIENT,
    "gradients_on": guards.AMBIENT,
    "autocast": guards.AMBIENT,
    "another_default_dtype": guards.AMBIENT,
    "deterministic_algorithms": guards.AMBIENT,
    "another_number_of_threads": guards.AMBIENT,
    "function_mode_around_the_second_call": guards.AMBIENT,
    "another_default_device": guards.AMBIENT,
    # Its guards are gone: there is nothing left to ask.
    "class_that_was_guarded_is_freed": guards.INVALIDATED,
}

RESOLUTIONS: Final = ((3, 7), (5, 7))
QUICK: Final = ("flux", "z_image")
MODELS: Final = ("flux", "qwen_image", "z_image", "lumina2", "hunyuan_video15")


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_entries_of_a_program_are_confirmed(program: Program, confirmed: Confirmed) -> None:
    with compilescope.observe() as scope:
        program.run()
    assert_confirmed(program.name, scope.recording, confirmed)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: f"{probe.kind}-{probe.name}")
def test_entries_of_a_probe_are_confirmed(probe: Probe, confirmed: Confirmed) -> None:
    with compilescope.observe() as scope:
        probe.run(cured=False)
    assert scope.recording.recompiles
    assert_confirmed(probe.name, scope.recording, confirmed)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("name", [pytest.param(m, marks=[] if m in QUICK else [pytest.mark.slow]) for m in MODELS])
def test_entries_of_a_model_are_confirmed(name: str, confirmed: Confirmed) -> None:
    pytest.importorskip("diffusers", reason="the models are diffusers'")
    from torch._dynamo.exc import FailOnRecompileLimitHit

    from models.diffusers_dits import DITS, Size

    dit = DITS[name]
    model = dit.build()
    model.compile_repeated_blocks(fullgraph=True, backend="eager", dynamic=True)
    texts = (0, 1, 7, 77) if dit.empty_text else (1, 7, 77)
    with compilescope.observe() as scope:
        for height, width in RESOLUTIONS:
            for text in texts:
                with contextlib.suppress(FailOnRecompileLimitHit):  # the limit is an error under fullgraph
                    dit.call(model, Size(height, width, text))
    assert scope.recording.recompiles
    assert_confirmed(name, scope.recording, confirmed)


def assert_confirmed(name: str, recording: Recording, confirmed: Confirmed) -> None:
    """Assert that torch agrees with every entry of a recording, or that the reason is the one that is allowed."""
    confirmed.add(recording)
    entries = explained(recording)
    allowed = {CONFIRMED, EXCEPTIONS.get(name, CONFIRMED)}
    contradicted = [entry.id for entry in entries if entry.confirmed is False]
    unconfirmed = [(entry.id, verdict(entry)) for entry in entries if verdict(entry) not in allowed]
    assert (contradicted, unconfirmed) == ([], [])
    if name in EXCEPTIONS:
        assert EXCEPTIONS[name] in {verdict(entry) for entry in entries}, "the exception is not needed any more"


def test_every_exception_belongs_to_something_that_is_run() -> None:
    assert set(EXCEPTIONS) <= {*(program.name for program in PROGRAMS), *(probe.name for probe in PROBES), *MODELS}
