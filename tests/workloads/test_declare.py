"""A workload that contradicts itself is refused in one sentence, where it is declared or built."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from compilescope.errors import WorkloadError
from compilescope.workloads.declare import Axis, Workload, workload

if TYPE_CHECKING:
    from collections.abc import Callable


def test_axis_keeps_the_order_and_the_repeats_of_its_values() -> None:
    assert Axis("text_len", [77, 7, 77]).values == (77, 7, 77)


@pytest.mark.parametrize(
    ("name", "values", "sentence"),
    [
        ("text len", [1], "Axis 'text len' needs a name that can be a keyword argument."),
        ("n", [], "Axis 'n' has no values."),
        ("n", "123", "Axis 'n' needs a list of values, not the string '123'."),
        ("n", [(1, 2)], r"Axis 'n' has the value \(1, 2\); values are bools, finite numbers, strings or None."),
        ("n", [float("nan")], "Axis 'n' has the value nan; values are .*"),
    ],
)
def test_axis_refuses(name: str, values: object, sentence: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{sentence}$"):
        Axis(name, values)


def test_decorated_factory_carries_its_declaration_and_can_still_be_called() -> None:
    @workload(axes=[Axis("n", [1, 2])], targets=["Block.forward"])
    def tiny() -> object:
        return lambda n: n + 1

    assert (tiny.name, tiny.axes, tiny.targets) == ("tiny", (Axis("n", [1, 2]),), ("Block.forward",))
    assert tiny()(n=3) == 4
    assert tiny.build()(n=4) == 5


def test_decorator_without_parentheses_declares_a_workload_without_axes() -> None:
    @workload
    def tiny() -> object:
        return lambda: "ran"

    assert tiny.axes == ()
    assert tiny.build()() == "ran"


def test_name_can_be_given() -> None:
    assert workload(name="the model")(lambda: print).name == "the model"


def test_two_axes_of_one_name_are_refused() -> None:
    with pytest.raises(WorkloadError, match="declares the axis 'n' twice"):
        workload(axes=[Axis("n", [1]), Axis("n", [2])])(lambda: print)


def test_factory_that_needs_an_argument_is_refused() -> None:
    with pytest.raises(WorkloadError, match="The factory of workload 'build' needs config; "):

        @workload
        def build(config: object) -> object:
            return config


@pytest.mark.parametrize(
    ("built", "axes", "sentence"),
    [
        (7, [], "returned int, which cannot be called"),
        (lambda: None, ["n"], "does not take the axis n"),
        (lambda n, m: (n, m), ["n"], "needs m, but its axes are n"),
        (lambda m: m, [], "needs m, but it has no axes"),
    ],
)
def test_factory_that_returns_the_wrong_thing_is_refused(built: object, axes: list[str], sentence: str) -> None:
    declared = Workload(name="w", factory=lambda: built, axes=tuple(Axis(name, [1]) for name in axes))
    with pytest.raises(WorkloadError, match=sentence):
        declared.build()


def test_callable_with_keywords_takes_any_axis() -> None:
    declared = Workload(name="w", factory=lambda: lambda **point: point, axes=(Axis("n", [1]),))
    assert declared.build()(n=1) == {"n": 1}


def test_arguments_go_to_the_parameters_of_the_factory() -> None:
    declared = Workload(name="w", factory=lambda device="cpu", size="tiny": lambda: (device, size))
    assert declared.build()() == ("cpu", "tiny")
    assert declared.build({"device": "meta"})() == ("meta", "tiny")
    assert declared.build({"size": "full"})() == ("cpu", "full")
    assert declared.defaults == {"device": "cpu", "size": "tiny"}


@pytest.mark.parametrize(
    ("factory", "argument", "sentence"),
    [
        (lambda: print, "device", r"'w' cannot take device=x: its factory has no parameter device\."),
        (lambda size=1: size, "szie", r"has no parameter szie; it has size\. Did you mean size\?"),
    ],
)
def test_argument_that_no_parameter_takes_is_refused(
    factory: Callable[..., object], argument: str, sentence: str
) -> None:
    with pytest.raises(WorkloadError, match=sentence):
        Workload(name="w", factory=factory).build({argument: "x"})


def test_factory_that_needs_a_device_says_how_to_give_one() -> None:
    with pytest.raises(WorkloadError, match="give one with --device"):
        Workload(name="w", factory=lambda device: lambda: device).build()


def test_public_name_is_the_decorator_though_a_folder_has_it_too() -> None:
    """``from compilescope import workload`` must not give the package that the command line has loaded."""
    code = (
        "import compilescope.workloads.session\n"
        "from compilescope import Axis, workload\n"
        "assert workload(lambda: print).name == '<lambda>'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
