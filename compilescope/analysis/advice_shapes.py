"""What helps against causes of the shape family."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from compilescope.analysis.advising import Advice, about, compares, of_adapter, place_of, quoted
from compilescope.analysis.facts import library_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from compilescope.analysis.facts import Facts
    from compilescope.record import Failure

_ZERO_ONE: Final = ("0", "1")
_MODELS: Final = ("diffusers", "transformers")
"""Libraries whose models branch on sizes and broadcast them in places that the user does not see."""
_ARGUMENT: Final = re.compile(r"\w+\.size\(\)\[\d+\]$")
_DIMENSION: Final = re.compile(r"\.size\(\)\[(\d+)\]$")
_THIS: Final = "this dimension"
_SPEC: Final = (2, 13)
"""The first version with a public way to name dynamic sizes; the next one renamed the argument."""


def _size(cause: Failure, facts: Facts) -> Advice:
    if (static := _static(cause, facts)) is not None:
        return static
    if cause.pinned_by is not None:
        return _pinned(cause, facts)
    if cause.marked == "static":
        return about(cause, "marked_static")
    if cause.actual in _ZERO_ONE or cause.expected in _ZERO_ONE:
        return _zero_one(cause, facts)
    if facts.dynamic is True:
        return about(cause, "pinned_somewhere", expected=cause.expected)
    return Advice("dynamic_instead" if facts.dynamic is False else "dynamic", {"dims": _dims(cause, facts)})


def _static(cause: Failure, facts: Facts) -> Advice | None:
    """Return what helps if the tensor is one whose sizes Dynamo keeps static."""
    if of_adapter(cause, facts):
        return Advice("lora_rank")
    if cause.registered is not None or (cause.expected_type == "Parameter" and cause.part == "size"):
        return about(cause, "static_parameter")
    return None


def _zero_one(cause: Failure, facts: Facts) -> Advice:
    if (static := _static(cause, facts)) is not None:
        return static
    if cause.pinned_by is not None:
        return _pinned(cause, facts)
    if _inside(cause):
        return about(cause, "zero_inside")
    freed = facts.frees_sizes and (facts.dynamic is True or cause.marked == "dynamic")
    if cause.marked == "unbacked" or (freed and not facts.inductor):
        return about(cause, "zero_one_expected")
    library = library_of(cause.where)
    if library in _MODELS:
        return about(cause, "zero_one_of_library", library=library)
    dims = _dims(cause, facts)
    words = {
        "inductor": ", and empty Inductor's cache on disk, whose graphs still check the size" * facts.inductor,
        "broadcast": " (not with dynamic=True, where that raises as soon as a size of 1 is broadcast)"
        * (facts.dynamic is True),
        "dims": dims,
        "them": "it" if dims == _THIS else "them",
        "or_spec": _spec(cause, facts),
    }
    if freed:
        return about(cause, "zero_one_cached", **words)
    return about(cause, "zero_one_branched" if facts.asked & {cause.source, *cause.also} else "zero_one", **words)


def _pinned(cause: Failure, facts: Facts) -> Advice:
    words = {"place": place_of(cause.pinned_by), "quoted": quoted(cause.pinned_by)}
    along = {source for other in facts.causes for source in (other.source, *other.also)}
    by_chance = [source for source in cause.pinned_with if source not in along]
    if by_chance:
        return about(cause, "pinned_by_chance", others=" or ".join(by_chance[:2]), size=cause.expected, **words)
    if cause.expected in _ZERO_ONE or compares(cause.pinned_by):
        return about(cause, "pinned_compared", **words)
    return about(cause, "pinned", **words)


def _inside(cause: Failure) -> bool:
    """Whether a size is 0 in any dimension but the first, so that it determines the strides of the others."""
    dimension = _DIMENSION.search(cause.source)
    return dimension is not None and dimension[1] != "0" and "0" in (cause.expected, cause.actual)


def _spec(cause: Failure, facts: Facts) -> str:
    if facts.torch < _SPEC or facts.resumes is not None or not _ARGUMENT.match(cause.source):
        return ""
    argument = "shapes_spec" if facts.torch == _SPEC else "dynamic_shapes"
    return f", or give it a ShapeVar in torch.compile({argument}=...) (torch.fx.experimental.dynamic_spec)"


def _dims(cause: Failure, facts: Facts) -> str:
    """Return the dimensions to mark. Equal ones must be marked together, or Dynamo raises."""
    change = (cause.kind, cause.expected, cause.actual)
    others = [f.source for f in facts.causes if (f.kind, f.expected, f.actual) == change and f.part == cause.part]
    # Relations, and the base tensors of views, change along with a size; they are not what the user marks.
    equal = [source for group in facts.together if cause.source in group for source in group]
    sizes = {s for s in (*cause.also, *others, *equal) if _DIMENSION.search(s) and "._base" not in s}
    sources = sorted({cause.source, *(source for source in sizes if ", " not in source)})
    if len(sources) == 1:
        return _THIS
    shown = ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")  # noqa: PLR2004 (what a line holds)
    return f"these equal dimensions, all of them: {shown}"


def _duck_size(cause: Failure, _: Facts) -> Advice:
    sizes = {side.strip().rpartition("= ")[2] for side in cause.actual.split(",")}
    if sizes & set(_ZERO_ONE):
        return about(cause, "duck_zero_one", dims=" and ".join(cause.symbols) or cause.source)
    return about(cause, "duck_size")


def _asked_at(name: str) -> Callable[[Failure, Facts], Advice]:
    def rule(cause: Failure, _: Facts) -> Advice:
        return about(cause, name, place=place_of(cause.where))

    return rule


def _bound(cause: Failure, facts: Facts) -> Advice:
    if cause.actual in _ZERO_ONE and cause.guard.startswith("2 <= "):
        return _zero_one(cause, facts)
    return about(cause, "bound", place=place_of(cause.where))


RULES: Final[Mapping[str, Callable[[Failure, Facts], Advice]]] = {
    "size": _size,
    "zero_one": _zero_one,
    "rank": lambda cause, _: about(cause, "rank"),
    "duck_size": _duck_size,
    "divisibility": _asked_at("divisibility"),
    "bound": _bound,
    "shape_relation": _asked_at("shape_relation"),
}
