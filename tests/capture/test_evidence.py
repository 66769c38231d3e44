"""What stands beside a failing guard: what pins it, how it is marked, what it is registered as, and how it is used."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.decorators import mark_unbacked

import compilescope

if TYPE_CHECKING:
    from collections.abc import Callable

    from compilescope.record import Failure

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def doubled(image: Tensor) -> Tensor:
    return image * 2


def cause_of(run: Callable[[], object]) -> Failure:
    with compilescope.observe() as scope:
        run()
    (compilation,) = scope.recording.recompiles
    assert compilation.recompile is not None
    return compilation.recompile.causes[0]


def called(*images: Tensor, function: Callable[[Tensor], Tensor] = doubled, dynamic: bool | None = None) -> Failure:
    compiled = torch.compile(function, backend="eager", dynamic=dynamic)
    return cause_of(lambda: [compiled(image) for image in images])


def text(image: Tensor) -> Tensor:
    return image + len(f"{image.shape[0]}")  # pinned


def test_size_that_is_pinned_carries_the_line_and_a_free_one_does_not() -> None:
    pinned = called(torch.ones(4, 3), torch.ones(6, 3), function=text, dynamic=True).pinned_by
    assert pinned is not None
    assert (pinned.function, (pinned.text or "").endswith("# pinned")) == ("text", True)
    assert called(torch.ones(4, 3), torch.ones(6, 3)).pinned_by is None


def test_each_entry_has_its_own_pins() -> None:
    called(torch.ones(4, 3), torch.ones(6, 3), function=text, dynamic=True)
    torch.compiler.reset()
    assert called(torch.ones(4, 3), torch.ones(6, 3), function=text, dynamic=False).pinned_by is None


@pytest.mark.parametrize(
    ("mark", "word"),
    [
        (torch._dynamo.mark_static, "static"),
        (torch._dynamo.maybe_mark_dynamic, "weakly dynamic"),
        (torch._dynamo.mark_dynamic, "dynamic"),
        (mark_unbacked, "unbacked"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_mark_of_the_new_input_is_told_for_its_own_dimension(mark: Callable[..., None], word: str) -> None:
    image, other = torch.ones(6, 3), torch.ones(4, 5)
    mark(image, 0)
    mark(other, 0)
    with compilescope.observe() as scope:
        compiled = torch.compile(doubled, backend="eager", dynamic=False)
        for size in (torch.ones(4, 3), image, other):
            compiled(size)
    failing = [f for c in scope.recording.recompiles if c.recompile for e in c.recompile.entries for f in e.failing]
    told = {failure.source: failure.marked for failure in failing if ".size()[" in failure.source}
    assert told["image.size()[1]"] is None
    assert told.get("image.size()[0]", word) == word


class Held(nn.Module):
    def __init__(self, rows: int, kind: str) -> None:
        super().__init__()
        table = torch.ones(rows, 3)
        if kind == "parameter":
            self.table = nn.Parameter(table)
        elif kind == "buffer":
            self.register_buffer("table", table)
        else:
            self.table = table

    def forward(self, image: Tensor) -> Tensor:
        return image @ self.table.t() @ self.table


class Holder(nn.Module):
    def __init__(self, rows: int, kind: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Held(rows, kind)])

    def forward(self, image: Tensor) -> Tensor:
        return self.layers[0](image)


@pytest.mark.parametrize("kind", ["parameter", "buffer", None])
@pytest.mark.parametrize("cls", [Held, Holder])
def test_tensor_of_a_module_is_told_as_what_it_is_registered_as(cls: type[nn.Module], kind: str | None) -> None:
    models = [cls(rows, kind or "attribute") for rows in (4, 6)]
    cause = cause_of(lambda: [torch.compile(model, backend="eager")(torch.ones(2, 3)) for model in models])
    assert cause.source.endswith("table.size()[0]")
    assert cause.registered == kind


class Scaled(nn.Module):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, image: Tensor) -> Tensor:
        return image * self.factor


class Switched(Scaled):
    def forward(self, image: Tensor) -> Tensor:
        if self.factor > 3:
            return image * 2
        return image


@pytest.mark.parametrize(("cls", "use"), [(Scaled, "arithmetic"), (Switched, "branch")])
def test_number_of_a_module_is_told_by_its_use(cls: type[Scaled], use: str) -> None:
    models = [cls(5), cls(6)]
    assert cause_of(lambda: [torch.compile(m, backend="eager")(torch.ones(3)) for m in models]).use == use


def test_properties_of_the_users_are_not_run_to_find_a_value() -> None:
    class Guarded:
        def __init__(self) -> None:
            self.inner = torch.ones(4, 3)

        @property
        def table(self) -> Tensor:
            asked.append(1)
            return self.inner

    def asked_for(*, observed: bool) -> int:
        asked.clear()
        torch.compiler.reset()
        compiled = torch.compile(lambda holder: holder.table * 2, backend="eager")
        first, second = Guarded(), Guarded()
        second.inner = torch.ones(6, 3)
        compiled(first)
        with compilescope.observe() if observed else contextlib.nullcontext():
            compiled(second)
        return len(asked)

    asked: list[int] = []
    assert asked_for(observed=True) == asked_for(observed=False) > 0
