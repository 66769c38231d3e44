"""Members of a module that come, go and move between its dicts are reported as what they were and are."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import compilescope

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Adapted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.adapter: nn.Module | None = None

    def forward(self, image: Tensor) -> Tensor:
        return image * 2 if self.adapter is None else self.adapter(image)


def told(model: nn.Module, *steps: Callable[[], object]) -> list[list[tuple[str | None, str, str, str]]]:
    """Call a compiled module after each step; return the changes of each recompile."""
    model.compile(backend="eager")
    with compilescope.observe() as scope:
        for step in (lambda: None, *steps):
            step()
            model(torch.ones(2, 4))
    recompiles = [c.recompile for c in scope.recording.recompiles if c.recompile is not None]
    assert all(entry.confirmed for recompile in recompiles for entry in recompile.entries)
    return [[(c.kind, c.source, c.expected, c.actual) for c in recompile.causes] for recompile in recompiles]


def test_adapter_that_comes_and_goes_stays_registered_as_none() -> None:
    model = Adapted()
    came, went = told(
        model, lambda: setattr(model, "adapter", nn.Linear(4, 4)), lambda: setattr(model, "adapter", None)
    )
    assert came == [("none_vs_value", "self.adapter", "None", "Linear module")]
    assert went in (
        [("module_attr", "self.adapter", "attribute None", "submodule None")],
        [("none_vs_value", "self.adapter", "Linear module", "None")],
    )


class Asking(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return image * 3 if hasattr(self.config, "extra") else image * 2


class Config:
    def __init__(self, **given: int) -> None:
        vars(self).update(given)


def test_attribute_that_is_asked_for_is_reported_with_its_value_whichever_way_it_goes() -> None:
    model = Asking()
    model.config = Config(extra=5)
    assert told(model, lambda: setattr(model, "config", Config())) == [
        [("attr_added", "self.config.extra", "5", "absent")]
    ]
    torch.compiler.reset()
    model.config = Config()
    ((change,),) = told(model, lambda: setattr(model, "config", Config(extra=5)))
    assert change[:3] == ("attr_added", "self.config.extra", "absent")


class Options(dict[str, object]):
    pass


def test_attribute_that_an_item_of_a_dict_loses_is_one_change_at_the_item_s_name() -> None:
    @torch.compile(backend="eager")
    def scale(image: Tensor, options: Options) -> Tensor:
        return image * 3 if hasattr(options["config"], "extra") else image * 2

    image = torch.ones(2)
    with compilescope.observe() as scope:
        scale(image, Options(image=image, config=Config(extra=5)))
        scale(image, Options(image=image, config=Config()))
    (recompile,) = (c.recompile for c in scope.recording.recompiles if c.recompile is not None)
    assert [(c.kind, c.source, c.expected, c.actual) for c in recompile.causes] == [
        ("attr_added", "options['config'].extra", "5", "absent")
    ]
    assert all(entry.confirmed for entry in recompile.entries)


class Weighted(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, image: Tensor) -> Tensor:
        return image * self.weight.sum()


def test_parameter_that_becomes_a_plain_tensor_is_another_class_of_tensor() -> None:
    model = Weighted(nn.Parameter(torch.ones(5, 3), requires_grad=False))

    def replace() -> None:
        del model.weight
        model.weight = torch.ones(5, 3)

    assert told(model, replace) == [[("tensor_type", "self.weight", "Parameter", "Tensor")]]


class Tagged(torch.Tensor):
    pass


class Holder:
    def __init__(self, given: Tensor) -> None:
        self.given = given


def test_subclass_that_becomes_a_parameter_is_another_class_of_tensor() -> None:
    @torch.compile(backend="eager")
    def scale(image: Tensor, holder: Holder) -> Tensor:
        return image * holder.given.sum()

    with compilescope.observe() as scope:
        scale(torch.ones(2), Holder(torch.ones(5, 3).as_subclass(Tagged)))
        scale(torch.ones(2), Holder(nn.Parameter(torch.ones(5, 3), requires_grad=False)))
    (recompile,) = (c.recompile for c in scope.recording.recompiles)
    assert [(c.kind, c.source, c.actual) for c in recompile.causes] == [("tensor_type", "holder.given", "Parameter")]


class Place(enum.Enum):
    LEFT = 1
    RIGHT = 2


@pytest.mark.parametrize("first", [Place.LEFT, Place.RIGHT])
def test_member_more_in_a_set_is_one_change_wherever_it_stands(first: Place) -> None:
    @torch.compile(backend="eager")
    def scale(image: Tensor, places: set[Place]) -> Tensor:
        for place in places:
            image = image * (2 if place is Place.LEFT else 3)
        return image

    with compilescope.observe() as scope:
        scale(torch.ones(2), {first})
        scale(torch.ones(2), {Place.LEFT, Place.RIGHT})
    (recompile,) = (c.recompile for c in scope.recording.recompiles)
    (cause,) = recompile.causes
    assert (cause.source, cause.actual) == ("places", "set of 2: Place.LEFT, Place.RIGHT")


@pytest.mark.parametrize("container", [dict, Options])
def test_numpy_scalar_that_becomes_a_float_is_one_change_in_any_dict(container: type[dict[str, object]]) -> None:
    @torch.compile(backend="eager", dynamic=False)
    def scale(image: Tensor, options: dict[str, object]) -> Tensor:
        return image * options["given"]  # type: ignore[operator]  # the number is what changes

    with compilescope.observe() as scope:
        scale(torch.ones(2), container({"also": 1, "given": np.float64(5.5)}))
        scale(torch.ones(2), container({"also": 1, "given": 5.5}))
    (recompile,) = (c.recompile for c in scope.recording.recompiles)
    assert [(c.kind, c.source, c.expected, c.actual) for c in recompile.causes] == [
        ("type", "options['given']", "np.float64(5.5)", "5.5")
    ]


@pytest.mark.parametrize("dynamic", [None, True])
def test_number_that_becomes_nan_is_one_change(dynamic: bool | None) -> None:  # noqa: FBT001 (of the parametrization)
    class Threshold:
        def __init__(self, given: float) -> None:
            self.given = given

    @torch.compile(backend="eager", dynamic=dynamic)
    def scale(image: Tensor, threshold: Threshold) -> Tensor:
        return image * 2 if threshold.given > 6.0 else image * 3

    with compilescope.observe() as scope:
        scale(torch.ones(2), Threshold(37.5))
        scale(torch.ones(2), Threshold(float("nan")))
    (recompile,) = (c.recompile for c in scope.recording.recompiles)
    assert [(c.source, c.expected, c.actual) for c in recompile.causes] == [("threshold.given", "37.5", "nan")]
    assert all(entry.confirmed for entry in recompile.entries)


class Calling(nn.Module):
    def __init__(self, given: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.given = given

    def forward(self, image: Tensor) -> Tensor:
        return self.given(image)


class Scaling:
    def __init__(self) -> None:
        self.factor = 2.0

    def scale(self, image: Tensor) -> Tensor:
        return image * self.factor


def test_method_that_becomes_a_builtin_is_reported_at_the_callable() -> None:
    model = Calling(Scaling().scale)
    ((change,),) = told(model, lambda: setattr(model, "given", torch.cos))
    assert change[1] == "self.given"
