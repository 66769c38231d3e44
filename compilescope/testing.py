"""Assertions about a recording, for tests without the pytest plugin.

::

    with compilescope.observe(targets=[Block], count_runs=True) as scope:
        for text_len in (4, 77):
            model(torch.ones(1, text_len, 24))
    assert_no_shape_recompile(scope, Block)

Each takes what :func:`compilescope.observe` yields, a saved recording, or the fixture ``compilescope``;
the arguments are those of the mark of that name. A target that was not compiled fails the assertion.
:class:`Watch` is the type of that fixture.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from compilescope.errors import UsageError
from compilescope.plugin.arguments import BROKEN
from compilescope.plugin.failure_section import failure, page
from compilescope.plugin.fixture import Watch
from compilescope.plugin.marks import read_mark
from compilescope.plugin.recorded_targets import target_in
from compilescope.plugin.rulings import rule
from compilescope.record import Recording
from compilescope.wording import listing

if TYPE_CHECKING:
    from compilescope.plugin.marks import Claim
    from compilescope.record import Scalar

__all__ = [
    "Recorded",
    "Watch",
    "assert_compile_budget",
    "assert_max_graph_breaks",
    "assert_no_shape_recompile",
    "make_inputs",
]


class Recorded(Protocol):
    """Anything that has a recording."""

    @property
    def recording(self) -> Recording:
        """What was recorded."""


def make_inputs(*specs: str, device: str = "cpu", **axes: Scalar) -> dict[str, Any]:
    """Return keyword arguments for a model, from the text that ``compilescope report --input`` takes.

    ::

        for text_len in (4, 77):
            model(**make_inputs("x=f32[batch,text_len,24]", batch=2, text_len=text_len))

    Args:
        specs: such as ``x=f32[batch,seq,16]`` or ``mask=none|bool[batch,seq]``.
        device: where the tensors lie.
        axes: a value for each axis; an axis of alternatives defaults to its first.

    Raises:
        UsageError: a specification cannot be read, or an axis has no value.
    """
    from compilescope.workloads.model.input_spec import read_inputs  # noqa: PLC0415 (torch comes with the next)
    from compilescope.workloads.model.make_inputs import make  # noqa: PLC0415

    inputs = read_inputs(specs)
    known = {name: values[0] for name, values in inputs.axes.items() if values is not None}
    unknown = [name for name in axes if name not in inputs.axes]
    missing = [name for name in inputs.axes if name not in {**known, **axes}]
    if unknown or missing:
        said = f"have no axis {listing(unknown)}" if unknown else f"need a value for {listing(missing)}"
        msg = f"The inputs {'; '.join(specs)} {said}."
        raise UsageError(msg)
    return make(inputs, {**known, **axes}, device=device)


def assert_no_shape_recompile(source: Recording | Recorded, *targets: object, **allowances: Any) -> None:  # noqa: ANN401 (as the mark takes them)
    """Assert that the targets were compiled, and that no change of shapes alone recompiled them.

    Args:
        source: what was recorded.
        targets: functions, classes, module instances, or patterns over qualified names.
        allowances: ``allow_fallbacks`` and so on, as the mark ``no_shape_recompile`` takes them.

    Raises:
        AssertionError: it does not hold.
        UsageError: an argument has the wrong type.
    """
    __tracebackhide__ = True
    _assert(source, _claim("no_shape_recompile", targets, allowances))


def assert_compile_budget(source: Recording | Recorded, *targets: object, **limits: Any) -> None:  # noqa: ANN401 (as the mark takes them)
    """Assert that the targets were compiled within limits.

    Args:
        source: what was recorded.
        targets: what the limits are for; none means everything that was compiled.
        limits: ``compiles``, ``recompiles``, ``kinds`` and so on, as the mark ``compile_budget`` takes them.

    Raises:
        AssertionError: a limit is exceeded.
        UsageError: an argument has the wrong type.
    """
    __tracebackhide__ = True
    _assert(source, _claim("compile_budget", targets, limits))


def assert_max_graph_breaks(source: Recording | Recorded, number: int, **allowances: Any) -> None:  # noqa: ANN401 (as the mark takes them)
    """Assert that there are at most ``number`` graph breaks.

    Args:
        source: what was recorded.
        number: how many sites there may be.
        allowances: ``own``, ``allow_fallbacks`` and so on, as the mark ``max_graph_breaks`` takes them.

    Raises:
        AssertionError: there are more.
        UsageError: an argument has the wrong type.
    """
    __tracebackhide__ = True
    _assert(source, _claim("max_graph_breaks", (number,), allowances))


def _claim(mark: str, args: tuple[object, ...], kwargs: dict[str, object]) -> Claim:
    if BROKEN in kwargs:
        msg = f"{BROKEN}= is for marks; an assertion that is known to fail goes into a test marked xfail."
        raise TypeError(msg)
    claim = read_mark(mark, args, kwargs)
    # As the user wrote it, with the recording first.
    return replace(claim, mark=f"assert_{mark}", written=f"..., {claim.written}".removesuffix(", "))


def _assert(source: Recording | Recorded, claim: Claim) -> None:
    __tracebackhide__ = True
    recording = source if isinstance(source, Recording) else source.recording
    ruling = rule(recording, claim, [target_in(recording, target) for target in claim.targets])
    if ruling.findings:
        raise AssertionError("\n".join([failure([ruling]), "", page(recording)]))
