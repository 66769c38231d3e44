"""A model is built from what names it, with a configuration as libraries have it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from compilescope.errors import UsageError, WorkloadError
from compilescope.workloads.model.target import Construction, ModelTarget, build, original_of, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class Config:
    width: int = 4
    name: str = "none"


class OfTransformers(nn.Module):
    """Takes a configuration object, as transformers' classes do."""

    config_class = Config

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.layer = nn.Linear(config.width, config.width)


class OfDiffusers(nn.Module):
    """Takes the values themselves, and has ``from_config``, as diffusers' classes do."""

    def __init__(self, width: int = 4, *, built: str = "by its constructor") -> None:
        super().__init__()
        self.width, self.built = width, built
        self.layer = nn.Linear(width, width)

    @classmethod
    def from_config(cls, config: dict[str, int]) -> OfDiffusers:
        """Build from a file."""
        return cls(**config, built="from_config")


def built(value: type[nn.Module] | nn.Module | Callable[..., object], **how: object) -> nn.Module:
    return build(ModelTarget("model", "file.py:model", value), Construction(**how))  # type: ignore[arg-type]  # its fields


def test_configuration_object_gets_its_values() -> None:
    model = built(OfTransformers, config=("width=8", "name=a"))
    assert model.config == Config(8, "a")


def test_configuration_of_a_file_leaves_out_what_it_says_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"_class_name": "OfDiffusers", "_diffusers_version": "0.42", "width": 8}))
    model = built(OfDiffusers, config=(str(path),))
    assert (model.width, model.built) == (8, "from_config")
    assert built(OfDiffusers, config=(str(path), "width=2")).width == 2


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is not valid JSON"), ("[1]", "holds list, not an object of names and values")]
)
def test_file_that_is_not_a_configuration_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        built(OfDiffusers, config=(str(path),))


def test_weights_are_seeded() -> None:
    first, second = built(OfDiffusers), built(OfDiffusers)
    assert torch.equal(first.layer.weight, second.layer.weight)


def test_parameters_lie_where_they_were_asked_to() -> None:
    assert built(OfDiffusers, device="meta").layer.weight.device.type == "meta"
    assert built(lambda device: nn.Linear(2, 2, device=device), device="meta").weight.device.type == "meta"


def test_model_is_in_evaluation_mode_unless_it_trains() -> None:
    assert not built(OfDiffusers).training
    assert built(OfDiffusers, train=True).training


def test_function_that_builds_something_else_is_told() -> None:
    with pytest.raises(WorkloadError, match=r"file\.py:model returned int, which is not an nn\.Module\."):
        built(lambda: 3)


def test_options_for_what_is_built_already_are_told() -> None:
    with pytest.raises(UsageError, match=r"--set does nothing for file\.py:model: it is built already\."):
        built(nn.Linear(2, 2), arguments={"x": "1"})


def test_compiled_model_is_known_by_what_it_was_made_of() -> None:
    model = OfDiffusers()
    assert original_of(torch.compile(model)) is model
    assert original_of(model) is model

    class Net(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x * mask

    assert list(signature_of(torch.compile(Net())).parameters) == ["x", "mask"]
